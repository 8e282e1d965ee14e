"""From a recipe to files; each format has its own module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.errors import TokenizerError
from tokenmill.engine.files import save_hf, save_plain

if TYPE_CHECKING:
    from tokenmill.engine.recipe import Recipe

_SAVERS = {
    "hf": save_hf.save,
    "tiktoken": save_plain.save_tiktoken,
    "vocab-merges": save_plain.save_vocab_merges,
    "minbpe": save_plain.save_minbpe,
}


def save(recipe: Recipe, path: str | Path, format: str) -> None:  # noqa: A002 - the public name
    """Writes `recipe` in one of the known formats."""
    if format not in _SAVERS:
        raise TokenizerError(f"format={format!r}; expected one of {', '.join(_SAVERS)}")
    try:
        _SAVERS[format](recipe, Path(path))
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be written: {error}") from error
