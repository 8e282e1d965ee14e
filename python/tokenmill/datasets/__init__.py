"""Write and read datasets: shards, receipts, manifest, views, batches."""
