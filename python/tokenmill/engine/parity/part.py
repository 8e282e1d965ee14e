"""Hugging Face with only as much of a vocabulary as some texts can use, since loading the whole takes long.

A merge applies only where the token that it makes stands in the text, so with the tokens that do not left out
Hugging Face gives the same ids for these texts (crates/core/src/files/part.rs). That holds where the model
sees the bytes of the text as they are. Any tokenizer that changes them first is loaded whole.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill._core import Merges, Tokens, vocabulary_part
from tokenmill.engine.files.hf_json import walk
from tokenmill.engine.files.hf_text import HfText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.engine.recipe import Recipe

# Steps that cut a text and leave its bytes alone; ByteLevel may put a space before it.
_CUTS = {"Split", "ByteLevel", "Digits"}
# JSON never writes these characters as they stand, so the strings occur once.
_VOCAB, _MERGES = "\0vocab", "\0merges"


def part_for(recipe: Recipe, texts: Sequence[str]) -> Recipe | None:
    """The recipe with the part of its vocabulary that these texts can use; None where it must be whole."""
    model, hf = recipe.model, recipe.hf
    if model is None or hf is None or not _takes_bytes_as_they_are(recipe):
        return None
    if not isinstance(model.tokens, Tokens) or not isinstance(model.merges, Merges):
        return None
    data = "".join(f" {text}" for text in texts).encode("utf-8", "surrogatepass")
    found = vocabulary_part(model.tokens, model.merges, data)
    if found is None:
        return None
    vocabulary, merges = found
    # An added token that the model does not know would get the next free id, which is another one now.
    added = "".join(f",{json.dumps(token.content)}:{token.id}" for token in recipe.added)
    outline = {**hf.outline, "model": {**hf.model, "vocab": _VOCAB, "merges": _MERGES}}
    text = json.dumps(outline)
    text = text.replace(json.dumps(_VOCAB), f"{vocabulary[:-1]}{added}}}", 1)
    text = text.replace(json.dumps(_MERGES), merges, 1)
    return replace(recipe, hf=HfText(hf.outline, text.encode()))


def _takes_bytes_as_they_are(recipe: Recipe) -> bool:
    model = recipe.model
    if model is None or model.kind != "bytes" or model.unk_id is not None:
        return False
    # With `ignore_merges` the vocabulary itself is looked up, where added tokens must not be.
    if model.ignore_merges or model.end_of_word_suffix or recipe.normalizer is not None:
        return False
    steps = list(walk(recipe.pre_tokenizer))
    return bool(steps) and all(step.get("type") in _CUTS for step in steps)
