"""The engines that run a recipe: native, huggingface, python."""
