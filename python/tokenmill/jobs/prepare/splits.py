"""Inputs with splits (`train`, `test`, …) become one dataset each, side by side in the output directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.datasets.shards.format import find_format
from tokenmill.datasets.store.store import is_remote, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.settings.resolve import Resolved
    from tokenmill.sources import InputFile


def by_split(inputs: Sequence[InputFile]) -> dict[str, list[InputFile]]:
    """The inputs of each split by its name, in order; the empty name where there are none or only one."""
    names = list(dict.fromkeys(file.split for file in inputs))
    if len(names) < 2:
        return {"": list(inputs)}
    return {name or "rest": [file for file in inputs if file.split == name] for name in names}


def of_split(resolved: Resolved, name: str) -> Resolved:
    """The settings of one split's dataset: its own directory below the output."""
    config = resolved.config
    if not name or config.output.path is None:
        return resolved
    output = config.output.replaced(path=below(config.output.path, name))
    source = config.source.replaced(split=name)
    return replace(resolved, config=config.replaced(output=output, source=source))


def below(address: str, name: str) -> str:
    """`("out", "train")` -> `"out/train"`; a URL keeps its two slashes."""
    return f"{address.rstrip('/')}/{name}" if is_remote(address) else str(Path(address) / name)


def note_splits(resolved: Resolved, names: Sequence[str]) -> None:
    """The file by which the format's readers know that the directory holds several datasets."""
    config = resolved.config
    list_splits = find_format(config.output.format).list_splits
    if list_splits is not None and config.output.path is not None and len(names) > 1:
        open_store(config.output.path).replace(*list_splits(names))
