"""The output formats: a module each, with one `FORMAT`. The folder is the list of them (shards/format.py)."""
