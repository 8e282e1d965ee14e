"""One unit and a config become one shard and one receipt."""
