"""From a recipe to files; each format has its own module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokenmill.base.errors import TokenizerError
from tokenmill.engine.files import save_hf, save_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.engine.recipe import Recipe


class FileKind(NamedTuple):
    """A kind of tokenizer file that can be written."""

    save: Callable[[Recipe, Path], None]
    # The file's name in a folder of several kinds; None where the kind fills a folder itself.
    file: str | None
    # Whether the file says how text is split, whatever the pre-tokenizer.
    has_pattern: bool


# Every kind that `SaveFormat` names.
KINDS: dict[str, FileKind] = {
    "hf": FileKind(save_hf.save, None, has_pattern=True),
    "tiktoken": FileKind(save_plain.save_tiktoken, "tokenizer.tiktoken", has_pattern=False),
    "vocab-merges": FileKind(save_plain.save_vocab_merges, None, has_pattern=False),
    "minbpe": FileKind(save_plain.save_minbpe, "tokenizer.model", has_pattern=True),
}


def save(recipe: Recipe, path: str | Path, format: str) -> None:  # noqa: A002 - the public name
    """Writes `recipe` in one of the known formats."""
    if format not in KINDS:
        raise TokenizerError(f"format={format!r}; expected one of {', '.join(KINDS)}")
    try:
        KINDS[format].save(recipe, Path(path))
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be written: {error}") from error
