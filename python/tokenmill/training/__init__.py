"""Piece counts to merges."""
