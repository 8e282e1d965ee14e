"""Choices that have a file each: the folder is their list, so that a new one is one new file."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def list_modules(folder: str) -> tuple[str, ...]:
    """The modules in a folder of the package, by name: `"datasets/formats"` -> `("arrow", "litdata", …)`.

    Nothing is imported, so that a room may learn the names of choices that a room above it makes.
    """
    return tuple(sorted(path.stem for path in (_PACKAGE / folder).glob("[!_]*.py")))
