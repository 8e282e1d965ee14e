"""Hugging Face `tokenizer.json`, so that loading it there and here encodes the same."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

from tokenmill._core import spell
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.files.names import TOKENIZER, TOKENIZER_CONFIG
from tokenmill.tokenizer.roles import guess_roles

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.tokenizer.recipe import Json, Model, Recipe


def save(recipe: Recipe, path: Path) -> None:
    """A `tokenizer.json` file, or a directory that gets one with its config."""
    if any(token.piece for token in recipe.added):
        warnings.warn(
            f"{recipe.source}: has user-defined pieces, which Hugging Face looks for before it writes spaces "
            "as ▁: loaded there, texts that hold them get other ids; loaded here, the same",
            stacklevel=4,
        )
    data = to_json(recipe) if recipe.hf is None else recipe.hf.to_json()
    target = path if path.suffix == ".json" else path / TOKENIZER
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without an indent: with one, Python's own encoder takes ten times as long for a large vocabulary.
    target.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    if path.suffix != ".json":
        # Where no config came along, transformers learns from this which token ends a document.
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **(recipe.config or guess_roles(recipe.added)),
        }
        text = json.dumps(config, ensure_ascii=False, indent=2)
        target.with_name(TOKENIZER_CONFIG).write_text(text, encoding="utf-8")


def to_json(recipe: Recipe) -> Json:
    """The object of a `tokenizer.json`."""
    model = recipe.model
    if model is None:
        raise TokenizerError(
            f"{recipe.source}: its model is not BPE and it was not loaded from a tokenizer.json, so none can "
            "be written"
        )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [token.to_json() for token in sorted(recipe.added, key=lambda token: token.id)],
        "normalizer": recipe.normalizer,
        "pre_tokenizer": recipe.pre_tokenizer,
        "post_processor": recipe.post_processor,
        "decoder": recipe.decoder,
        "model": _model_to_json(recipe, model),
    }


def _model_to_json(recipe: Recipe, model: Model) -> Json:
    write = spell if model.kind == "bytes" else bytes.decode
    vocabulary = {write(token): i for i, token in enumerate(model.tokens) if token is not None}
    for i, data in model.unreachable:
        vocabulary.setdefault(data.decode(), i)
    # HF renumbers an added token whose string is not in the vocabulary, so each one is put there.
    for token in recipe.added:
        vocabulary.setdefault(token.content, token.id)
    unk = (
        next((t for t, i in vocabulary.items() if i == model.unk_id), None)
        if model.unk_id is not None
        else None
    )
    tokens = [None if token is None else write(token) for token in model.tokens]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unk,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": model.end_of_word_suffix or None,
        "fuse_unk": model.fuse_unk,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": model.ignore_merges,
        "vocab": dict(sorted(vocabulary.items(), key=lambda item: item[1])),
        "merges": [[tokens[left], tokens[right]] for left, right in model.list_merges()],
    }
