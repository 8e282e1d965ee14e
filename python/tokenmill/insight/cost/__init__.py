"""Transformer accounting: parameters, memory, FLOPs."""
