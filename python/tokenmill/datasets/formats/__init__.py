"""The output formats: a module each, with one `FORMAT`; the folder is their list (shards/format.py)."""
