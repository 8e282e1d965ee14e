"""Merges to a tokenizer, with the ids of HF's trainer or of minbpe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill._core import Merges
from tokenmill.tokenizer.pre_tokenizer import make_byte_level, make_pre_tokenizer
from tokenmill.tokenizer.recipe import AddedToken, Model, Recipe, build_byte_model, number_tokens
from tokenmill.tokenizer.roles import guess_roles

if TYPE_CHECKING:
    from tokenmill.settings.schema import TrainingConfig
    from tokenmill.training.merging import Merged


def build_recipe(merged: Merged, options: TrainingConfig, source: str = "trained") -> Recipe:
    """Numbered as by HF's trainer: special tokens, then the bytes in its order, then the merged tokens."""
    special = options.special_tokens
    added = tuple(AddedToken(content, token_id) for token_id, content in enumerate(special))
    return Recipe(
        source=source,
        format="hf",
        model=Model(
            "bytes",
            merged.vocabulary.prepend([token.encode() for token in special]),
            merges=merged.merges.shift_ids(len(special)),
        ),
        added=added,
        pre_tokenizer=make_pre_tokenizer(options.pattern),
        decoder=make_byte_level(use_regex=True),
        config=_assign_roles(added),
    )


def _assign_roles(added: tuple[AddedToken, ...]) -> dict[str, str]:
    """What the special tokens are for, so that transformers and trainers find an end and a padding token.

    Without one of its own, padding is the end token, as everybody does with GPT-2.
    """
    roles = guess_roles(added)
    return roles if "eos_token" not in roles else {"pad_token": roles["eos_token"], **roles}


def keep_first_tokens(recipe: Recipe, size: int) -> Recipe:
    """The tokenizer that training to a smaller `size` gives: the first merges, with the tokens they make."""
    model = recipe.model
    assert model is not None, "a trained tokenizer has a model"
    tokens = tuple(model.tokens[:size])
    ids = {token: place for place, token in enumerate(tokens)}
    merges = []
    for left, right in model.merges or ():
        if left >= size or right >= size or (tokens[left] or b"") + (tokens[right] or b"") not in ids:
            break
        merges.append((left, right))
    source = f"{recipe.source}/{size}"
    smaller = replace(model, tokens=number_tokens(tokens, source), merges=Merges(merges))
    return replace(recipe, model=smaller, source=source)


def build_minbpe_recipe(merged: Merged, options: TrainingConfig, source: str = "trained") -> Recipe:
    """Numbered as in minbpe's files: the bytes by value, then the merged tokens, then the special tokens."""
    renumbered = [token[0] for token in merged.tokens[:256]]
    renumbered += range(256, len(merged.tokens))
    tokens = [*(bytes([byte]) for byte in range(256)), *merged.tokens[256:]]
    merges = [(renumbered[left], renumbered[right]) for left, right in merged.merges]
    added = enumerate(options.special_tokens, start=len(tokens))
    return Recipe(
        source=source,
        format="minbpe",
        model=build_byte_model(zip(tokens, range(len(tokens)), strict=True), merges, source),
        added=tuple(AddedToken(content, token_id) for token_id, content in added),
        pre_tokenizer=make_pre_tokenizer(options.pattern),
    )
