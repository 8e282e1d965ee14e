"""What the formats share: a shard's shape, its items, the base of every writer, index files, tables."""
