"""Tokenizer files of every kind, to a recipe and back."""
