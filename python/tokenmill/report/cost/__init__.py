"""The cost of a transformer: parameters, memory, FLOPs."""
