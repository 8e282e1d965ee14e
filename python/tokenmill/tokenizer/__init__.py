"""Text to ids and back, with any production vocabulary."""
