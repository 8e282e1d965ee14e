"""Render conversations with chat templates and encode them to ids with a loss mask."""
