"""Rows to files and files to rows: shards, receipts, manifest, reader."""
