"""The kinds of tokenizer files, a row each: what it is called, how it is recognised, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokenmill import _core
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.files import (
    hf_json,
    minbpe,
    names,
    save_hf,
    save_plain,
    sentencepiece,
    tekken,
    tiktoken,
    vocab_merges,
)
from tokenmill.tokenizer.recipe import make_printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tokenmill.tokenizer.recipe import Recipe


class FileKind(NamedTuple):
    """A kind of tokenizer file."""

    # What it is called in a directory of its own.
    file: str
    # The names that such a file may have; `load` looks inside where two kinds share one.
    patterns: tuple[str, ...]
    # Takes a path, and the caller's pattern and special tokens, if any.
    load: Callable[[Path, str | None, Mapping[str, int] | None], Recipe]
    # None where the kind is only read.
    save: Callable[[Recipe, Path], None] | None = None
    # Whether saving fills a directory; else it writes one file.
    fills_directory: bool = False
    # Whether the file says how text is split, whatever the pre-tokenizer.
    has_pattern: bool = True


def _load_json(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    text = path.read_bytes()
    if vocab_merges.is_vocabulary(text):
        merges = vocab_merges.find_merges(path)
        return vocab_merges.load_file(path, merges, pattern, special_tokens)
    outline, bpe = _core.read_hf(text, make_printable(path))
    data = json.loads(outline)
    if tekken.is_tekken(data):
        return tekken.from_json(data, str(path))
    return hf_json.from_outline(data, bpe, text, str(path), hf_json.read_config_beside(path))


def _load_merges(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    vocab = names.VOCAB if path.name == names.MERGES else names.ENCODER
    return vocab_merges.load_file(path.with_name(vocab), path, pattern, special_tokens)


def _load_model(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    if minbpe.is_minbpe(path):
        return minbpe.load_file(path, pattern, special_tokens)
    return sentencepiece.load_file(path)


_JSON = ("*.json",)
_MODEL = (f"*{names.ANY_MODEL}", f"*{names.ANY_MODEL}.*")
_TIKTOKEN = (f"*{names.ANY_TIKTOKEN}", f"*{names.ANY_TIKTOKEN}.*")
# Of several files in a directory the first of these is loaded. `SaveFormat` names those that are written.
KINDS = {
    "hf": FileKind(names.TOKENIZER, _JSON, _load_json, save_hf.save, fills_directory=True),
    "vocab-merges": FileKind(
        names.VOCAB,
        (names.MERGES, "*.bpe"),
        _load_merges,
        save_plain.save_vocab_merges,
        fills_directory=True,
        has_pattern=False,
    ),
    "tekken": FileKind(names.TEKKEN, _JSON, _load_json),
    "sentencepiece": FileKind(names.MODEL, _MODEL, _load_model),
    "minbpe": FileKind(names.MODEL, _MODEL, _load_model, save_plain.save_minbpe),
    "tiktoken": FileKind(
        names.TIKTOKEN, _TIKTOKEN, tiktoken.load_file, save_plain.save_tiktoken, has_pattern=False
    ),
}


def find_kind(path: Path) -> FileKind | None:
    """The first kind whose files may be called so."""
    return next((kind for kind in KINDS.values() if any(map(path.match, kind.patterns))), None)


def find_in(directory: Path) -> Path | None:
    """The tokenizer file of a directory: the first by its usual name."""
    return next((path for kind in KINDS.values() if (path := directory / kind.file).is_file()), None)


def save(recipe: Recipe, path: str | Path, format: str) -> None:  # noqa: A002 - the public name
    """Writes `recipe` in one of the known formats."""
    kind = KINDS.get(format)
    if kind is None or kind.save is None:
        written = ", ".join(name for name, kind in KINDS.items() if kind.save)
        raise TokenizerError(f"format={format!r}; expected one of {written}")
    try:
        kind.save(recipe, Path(path))
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be written: {error}") from error
