"""Token ids to rows: pure functions over flat `(ids, offsets)`, no file and no configuration object."""
