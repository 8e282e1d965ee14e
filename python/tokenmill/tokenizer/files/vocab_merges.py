"""GPT-2's pair of files: `vocab.json` (token -> id) and `merges.txt` (one merge a line)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tokenmill._core import Spellings
from tokenmill.errors import TokenizerNotFoundError
from tokenmill.tokenizer.files import names
from tokenmill.tokenizer.files.hf_json import add_from_config, read_config_beside
from tokenmill.tokenizer.pre_tokenizer import make_byte_level, make_pre_tokenizer
from tokenmill.tokenizer.recipe import Model, Recipe, check_specials, make_printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MERGE_FILES = (names.MERGES, names.ENCODER_MERGES, "{stem}-merges.txt")
_END = "<|endoftext|>"
DEFAULT_PATTERN = "gpt2"
_FIRST_IS_NUMBER = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*-?\d')


def find_merges(path: Path) -> Path:
    """The merges that belong to a vocabulary file."""
    stem = path.stem.removesuffix("-vocab")
    for name in _MERGE_FILES:
        candidate = path.with_name(name.format(stem=stem))
        if candidate.is_file():
            return candidate
    raise TokenizerNotFoundError(
        f"{path}: looks like a vocabulary, but no merges are beside it; expected merges.txt in {path.parent}"
    )


def is_vocabulary(text: bytes) -> bool:
    """Whether a JSON file is a `vocab.json`: the value of its first key is a number."""
    return _FIRST_IS_NUMBER.match(text) is not None


def load_file(
    vocab: Path, merges: Path, pattern: str | None, special_tokens: Mapping[str, int] | None
) -> Recipe:
    """The two files as a byte-level tokenizer, cut by the caller's pattern, that beside them, or GPT-2's."""
    vocabulary = Spellings(_read(vocab), make_printable(vocab))
    tokens, outside = vocabulary.as_bytes()
    config = read_config_beside(vocab)
    end = vocabulary.get(_END)
    specials = {} if end is None or "added_tokens_decoder" in config else {_END: end}
    listed = vocabulary.read_merges(_read(merges), make_printable(merges))
    return Recipe(
        source=str(vocab),
        format="vocab-merges",
        model=Model("bytes", tokens, merges=listed, unreachable=tuple(outside)),
        added=add_from_config(
            check_specials(tokens, special_tokens or specials, str(vocab)), config, str(vocab)
        ),
        pre_tokenizer=make_pre_tokenizer(pattern or _read_pattern(vocab)),
        decoder=make_byte_level(use_regex=True),
        config=config,
    )


def _read_pattern(vocab: Path) -> str:
    side = vocab.with_name(names.PATTERN)
    return _read(side).decode() if side.is_file() else DEFAULT_PATTERN


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise TokenizerNotFoundError(f"{path}: no such file") from error
