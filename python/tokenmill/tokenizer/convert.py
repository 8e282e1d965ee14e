"""A tokenizer from one format to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.tokenizer.tokenizer import SaveFormat, Tokenizer

if TYPE_CHECKING:
    from pathlib import Path


def convert(
    source: str | Path,
    target: str | Path,
    format: SaveFormat = "hf",  # noqa: A002 - the public name
    *,
    pattern: str | None = None,
) -> Tokenizer:
    """Loads `source`, saves it as `target`, and gives the tokenizer back."""
    tokenizer = Tokenizer.load(source, pattern=pattern)
    tokenizer.save(target, format)
    return tokenizer
