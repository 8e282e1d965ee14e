"""The files of a tokenizer for keeping elsewhere, so that loading them gives the same fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.tokenizer.files import names
from tokenmill.tokenizer.files.save_hf import to_json
from tokenmill.tokenizer.files.vocab_merges import find_merges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.tokenizer.recipe import Recipe

# Templates of conversations and what `pattern.txt` says lie beside the vocabulary and belong to it.
_BESIDE = (*names.TEMPLATES, names.PATTERN)
_KEPT_AS = {"tekken": names.TEKKEN, "vocab-merges": names.VOCAB}


def copy_files(recipe: Recipe) -> dict[str, bytes]:
    """Names and contents; empty for what has no file: a Python object, an encoding known by its name.

    A vocabulary that is in memory as text is taken from there, since its file may have changed.
    """
    try:
        return _copy_files(recipe)
    except FileNotFoundError:  # it was deleted after loading, and nothing but the copy needs it
        return {}


def _copy_files(recipe: Recipe) -> dict[str, bytes]:
    source = Path(recipe.source)
    files: dict[str, bytes] = {}
    if recipe.hf is not None:
        files[names.TOKENIZER] = recipe.hf.spell_out().encode()
    elif source.is_file():
        files[_KEPT_AS.get(recipe.format, source.name)] = source.read_bytes()
        if recipe.format == "vocab-merges":
            files[names.MERGES] = find_merges(source).read_bytes()
    elif recipe.model is not None and recipe.model.merges is not None:
        files[names.TOKENIZER] = json.dumps(to_json(recipe), ensure_ascii=False).encode()
    if not files:
        return {}
    if recipe.config:
        files[names.TOKENIZER_CONFIG] = json.dumps(recipe.config, ensure_ascii=False, indent=2).encode()
    return files | dict(_read_beside(source))


def _read_beside(source: Path) -> Iterator[tuple[str, bytes]]:
    if source.is_file():
        for pattern in _BESIDE:
            for path in sorted(source.parent.glob(pattern)):
                yield path.relative_to(source.parent).as_posix(), path.read_bytes()
