"""From files back to rows: mapped shards, order, turns, batches."""
