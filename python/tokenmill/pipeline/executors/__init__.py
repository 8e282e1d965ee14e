"""Plan in, receipts out: where units run (this machine's threads, a Ray cluster, a range of the plan)."""
