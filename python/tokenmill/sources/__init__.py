"""Bytes of any supported file to blocks of documents."""
