"""Merges to a tokenizer.

Ids are those of HF's trainer: special tokens first, then the bytes, then one id a merged token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.tokenizer.recipe import AddedToken, Model, Recipe
from tokenmill.training.pattern import byte_level, pre_tokenizer_of

if TYPE_CHECKING:
    from tokenmill.training.merging import Merged
    from tokenmill.training.options import TrainOptions


def recipe_of(merged: Merged, options: TrainOptions, source: str = "trained") -> Recipe:
    """The tokenizer of a finished training."""
    special = options.special_tokens
    first = len(special)
    merges = tuple((left + first, right + first) for left, right in merged.merges)
    tokens = (*(None for _ in special), *merged.tokens)
    return Recipe(
        source=source,
        format="hf",
        model=Model("bytes", tokens, merges=merges),
        added=tuple(AddedToken(content, token_id) for token_id, content in enumerate(special)),
        pre_tokenizer=pre_tokenizer_of(options.pattern),
        decoder=byte_level(use_regex=True),
    )
