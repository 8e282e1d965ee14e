"""Records of finished work: plan, receipts, manifest, account."""
