"""Token ids to rows, as pure functions."""
