"""The engines that run a recipe: native, fast, slow."""
