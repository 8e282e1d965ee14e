"""The native engine against Hugging Face's, on the user's own documents."""
