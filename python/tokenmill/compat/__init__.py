"""Interfaces of other libraries (minbpe, CS336, rustbpe, tiktoken) and adapters for trainers."""
