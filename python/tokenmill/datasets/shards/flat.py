"""Shards of bare tokens beside an index: how they are mapped and cut into items again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.shards.items import Items
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry
    from tokenmill.datasets.shards.items import Columns

CHUNK_TOKENS = 1 << 22


def map_file(root: Path, entry: FileEntry, dtype: str) -> NDArray[Any]:
    """A file of bare little-endian numbers, mapped."""
    kind = np.dtype(dtype).newbyteorder("<")
    if entry.bytes % kind.itemsize:
        raise DatasetError(
            f"{entry.path} has {entry.bytes} bytes, not a multiple of {kind.itemsize}: it is damaged"
        )
    if not entry.bytes:
        return np.empty(0, dtype=kind)
    return np.memmap(root / entry.path, dtype=kind, mode="r")


def make_row_offsets(tokens: NDArray[Any], manifest: Manifest) -> NDArray[np.int64]:
    """Where each row begins, and the end of the last."""
    length = manifest.packing.context_length or 1
    return np.arange(len(tokens) // length + 1, dtype=np.int64) * length


def cut_items(
    shard: ShardEntry,
    tokens: NDArray[Any],
    offsets: NDArray[np.int64],
    columns: Columns | None = None,
    segments: NDArray[np.uint64] | None = None,
) -> Iterator[Items]:
    """A mapped shard's items, some at a time; raises `DatasetError` unless the offsets fit the tokens."""
    if offsets[0] != 0 or offsets[-1] != len(tokens) or (np.diff(offsets) < 0).any():
        raise DatasetError(
            f"shard {shard.name}: offsets go from {offsets[0]} to {offsets[-1]} for {len(tokens)} tokens, "
            "but must rise from 0 to that number: the index is damaged"
        )
    start = 0
    while start < len(offsets) - 1:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + CHUNK_TOKENS, side="right")) - 1)
        first, last = int(offsets[start]), int(offsets[stop])
        part = None
        if segments is not None:
            low, high = np.searchsorted(segments[:, 2], [first, last])
            part = segments[low:high] - np.array([0, 0, first, 0], dtype=np.uint64)
        picked = {name: values[first:last] for name, values in (columns or {}).items()}
        yield Items(tokens[first:last], offsets[start : stop + 1] - first, picked, part)
        start = stop
