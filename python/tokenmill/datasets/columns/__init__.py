"""The columns of rows: a module each, with one `COLUMN`; the folder is their list (packing/column.py)."""
