"""One schema for every setting, and who set it."""
