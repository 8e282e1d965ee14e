"""From files back to rows: mapped shards, order, shares, batches."""
