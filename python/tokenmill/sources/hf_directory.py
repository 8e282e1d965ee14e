"""Directories written by `datasets.save_to_disk`, read with Arrow alone; splits are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE, SPLITS = "state.json", "dataset_dict.json"


def is_saved(path: str | Path) -> bool:
    """Whether a directory is a saved `Dataset` or `DatasetDict`."""
    folder = Path(path)
    return (folder / SPLITS).is_file() or (folder / STATE).is_file()


def list_members(path: str | Path) -> Iterator[tuple[str | None, str]]:
    """`(split, arrow file)` of each data file, splits in the order in which they were saved."""
    folder = Path(path)
    if not (folder / SPLITS).is_file():
        split = _load(folder / STATE).get("_split")
        yield from ((str(split) if split else None, str(file)) for file in _list_data_files(folder))
        return
    for split in _load(folder / SPLITS).get("splits", []):
        yield from ((str(split), str(file)) for file in _list_data_files(folder / str(split)))


def _list_data_files(folder: Path) -> list[Path]:
    state = _load(folder / STATE)
    if state.get("_indices_data_files"):
        raise InputError(
            f"{folder}: the dataset was saved with a selection of its rows, which would be lost; "
            "load and save it again: Dataset.load_from_disk(...).flatten_indices().save_to_disk(...)"
        )
    files = [folder / str(entry["filename"]) for entry in state.get("_data_files", [])]
    missing = [str(file) for file in files if not file.is_file()]
    if missing or not files:
        raise InputError(f"{folder}: {STATE} lists data files that do not exist: {missing or 'none at all'}")
    return files


def _load(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value
