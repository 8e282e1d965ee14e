"""Words for people: logging, progress, and which rank may speak."""
