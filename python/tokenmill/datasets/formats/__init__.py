"""The output formats. `format.py` has the registry."""
