"""GPT-2's pair of files: `vocab.json` (token -> id) and `merges.txt` (one merge a line)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.base.errors import TokenizerError, TokenizerNotFoundError
from tokenmill.engine.files import hf_json
from tokenmill.engine.pre_tokenizer import byte_level, pre_tokenizer_of
from tokenmill.engine.recipe import Json, Recipe, check_added, specials_from

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MERGE_FILES = ("merges.txt", "vocab.bpe", "{stem}-merges.txt")
_END = "<|endoftext|>"


def merges_beside(path: Path) -> Path:
    """The merges that belong to a vocabulary file."""
    stem = path.stem.removesuffix("-vocab")
    for name in _MERGE_FILES:
        candidate = path.with_name(name.format(stem=stem))
        if candidate.is_file():
            return candidate
    raise TokenizerNotFoundError(
        f"{path}: looks like a vocabulary, but no merges are beside it; expected merges.txt in {path.parent}"
    )


def load_file(
    vocab: Path, merges: Path, pattern: str | None, special_tokens: Mapping[str, int] | None
) -> Recipe:
    """The two files as a byte-level tokenizer; the pattern is GPT-2's unless the caller gives another."""
    if vocab.suffix != ".json":
        vocab = vocab.with_name("encoder.json")
    vocabulary = hf_json.read_json(vocab)
    specials = dict(special_tokens or {})
    if not specials and isinstance(vocabulary.get(_END), int):
        specials[_END] = vocabulary[_END]
    body = {
        "type": "BPE",
        "vocab": vocabulary,
        "merges": _read_merges(merges),
        "unk_token": None,
        "fuse_unk": False,
        "byte_fallback": False,
    }
    data: Json = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": content, "special": True, "normalized": False}
            for content, i in specials.items()
        ],
        "pre_tokenizer": pre_tokenizer_of(pattern or "gpt2"),
        "decoder": byte_level(use_regex=True),
        "model": body,
    }
    check_added(specials_from(specials), f"{vocab}: special_tokens")
    recipe = hf_json.from_json(data, str(vocab))
    return Recipe(**{**_fields(recipe), "format": "vocab-merges", "hf": None})


def _fields(recipe: Recipe) -> Json:
    return {name: getattr(recipe, name) for name in recipe.__slots__}


def _read_merges(path: Path) -> list[list[str]]:
    """The merges of a file; a first line such as `#version: 0.2` is a comment."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise TokenizerNotFoundError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: not UTF-8 at byte {error.start}") from error
    merges = []
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r")
        if not text or (number == 1 and text.startswith("#version")):
            continue
        pair = text.split(" ")
        if len(pair) != 2:
            raise TokenizerError(
                f"{path}:{number}: expected two tokens and a space between them, found {text!r}"
            )
        merges.append(pair)
    return merges
