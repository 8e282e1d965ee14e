"""Our core behind the objects that other people's code expects: transformers' and tiktoken's."""
