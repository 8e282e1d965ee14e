"""What says that something is done: plan, receipts, manifest, account."""
