"""Directories and object stores, and the local cache before them."""
