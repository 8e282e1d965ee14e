"""Interfaces of other libraries: minbpe, CS336, rustbpe, tiktoken, and a mixin for transformers."""
