"""Objects of transformers and tiktoken with the native engine."""
