"""Vocabulary surgery: extend and trim a tokenizer, with proof, and carry the model along."""
