"""Names close to one that does not exist, so that a typo is answered with what was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def near_words(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.8) -> list[str]:
    """`near_words("prepar", ["prepare", "plan"])` -> `["prepare"]`, the nearest first."""
    from difflib import get_close_matches  # here, since only a mistake needs it

    return get_close_matches(word, list(known), most, cutoff)


def near_paths(path: Path) -> list[Path]:
    """Files beside a missing path that have nearly its name."""
    try:
        beside = [each.name for each in path.parent.iterdir() if each.name[:1] != "."]
    except OSError:
        return []
    return [path.with_name(name) for name in near_words(path.name, beside)]
