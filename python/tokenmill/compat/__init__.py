"""Familiar doors: the call signatures of minbpe and of Stanford's CS336, over our engine."""
