"""The items of a shard, whatever its format, as flat ids and offsets: for checks and for conversion."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.base.errors import DatasetError
from tokenmill.datasets.formats.index import map_offsets, map_segments
from tokenmill.datasets.formats.megatron import DTYPE_CODES, MAGIC
from tokenmill.datasets.formats.tables import COLUMN_TYPES, INPUT_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.formats.shard import Columns
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import ShardEntry

CHUNK_TOKENS = 1 << 22
READABLE = ("tokenmill", "megatron", "arrow", "parquet", "npy")


@dataclass(frozen=True, slots=True)
class Items:
    """Some documents or rows of a shard, in order; segments only in the `tokenmill` format."""

    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    columns: Columns = field(default_factory=dict)
    segments: NDArray[np.uint64] | None = None


def read_items(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    """A shard's items, some at a time; raises `DatasetError` where the index and the tokens disagree."""
    if manifest.format in {"arrow", "parquet"}:
        return _table_items(root, manifest, shard)
    if manifest.format not in READABLE:
        raise DatasetError(
            f"the format {manifest.format} is written but not read here; its own library reads it. "
            f"Readable are {', '.join(READABLE)}"
        )
    return _flat_items(root, manifest, shard)


def _flat_items(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    tokens, offsets = _flat(root, manifest, shard)
    check_offsets(offsets, len(tokens), shard.name)
    rows = manifest.layout == "rows"
    columns = {name: _map(root, shard, name, manifest) for name in manifest.packing.columns if rows}
    segments = (
        map_segments(root / shard.file("segments").path) if rows and manifest.format == "tokenmill" else None
    )
    start = 0
    while start < len(offsets) - 1:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + CHUNK_TOKENS, side="right")) - 1)
        first, last = int(offsets[start]), int(offsets[stop])
        part = None
        if segments is not None:
            low, high = np.searchsorted(segments[:, 2], [first, last])
            part = segments[low:high] - np.array([0, 0, first, 0], dtype=np.uint64)
        picked = {name: values[first:last] for name, values in columns.items()}
        yield Items(tokens[first:last], offsets[start : stop + 1] - first, picked, part)
        start = stop


def _flat(root: Path, manifest: Manifest, shard: ShardEntry) -> tuple[NDArray[Any], NDArray[np.int64]]:
    tokens = _map(root, shard, "tokens", manifest)
    if manifest.format == "megatron":
        return tokens, _megatron_offsets(root / shard.file("index").path, manifest.dtype)
    if manifest.layout == "rows":
        length = manifest.packing.context_length or 1
        return tokens, np.arange(len(tokens) // length + 1, dtype=np.int64) * length
    path = root / shard.file("offsets").path
    found = np.load(path, mmap_mode="r") if manifest.format == "npy" else map_offsets(path)
    return tokens, found.astype(np.int64)


def _map(root: Path, shard: ShardEntry, role: str, manifest: Manifest) -> NDArray[Any]:
    entry = shard.file(role)
    if manifest.format == "npy":
        flat: NDArray[Any] = np.load(root / entry.path, mmap_mode="r").reshape(-1)
        return flat
    dtype = np.dtype(manifest.dtype if role == "tokens" else COLUMN_TYPES[role]).newbyteorder("<")
    if entry.bytes % dtype.itemsize:
        raise DatasetError(
            f"{entry.path} has {entry.bytes} bytes, not a multiple of {dtype.itemsize}: it is damaged"
        )
    if not entry.bytes:
        return np.empty(0, dtype=dtype)
    return np.memmap(root / entry.path, dtype=dtype, mode="r")


def _megatron_offsets(path: Path, dtype: str) -> NDArray[np.int64]:
    raw = path.read_bytes()
    head = struct.Struct("<QBQQ")
    if raw[: len(MAGIC)] != MAGIC:
        raise DatasetError(f"{path} does not start like a Megatron index: it is damaged")
    _, code, sequences, documents = head.unpack_from(raw, len(MAGIC))
    at = len(MAGIC) + head.size
    if code != DTYPE_CODES[dtype] or len(raw) != at + 12 * sequences + 8 * documents:
        raise DatasetError(
            f"{path} has {len(raw)} bytes and type code {code}, which its header does not allow"
        )
    lengths = np.frombuffer(raw, "<i4", sequences, at).astype(np.int64)
    pointers = np.frombuffer(raw, "<i8", sequences, at + 4 * sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if not np.array_equal(pointers, offsets[:-1] * np.dtype(dtype).itemsize):
        raise DatasetError(f"{path}: its pointers are not the running sum of its lengths: it is damaged")
    return offsets


def check_offsets(offsets: NDArray[np.int64], tokens: int, name: str) -> None:
    """Raise unless offsets start at 0, never decrease and end at the number of tokens."""
    if offsets[0] != 0 or offsets[-1] != tokens or (np.diff(offsets) < 0).any():
        raise DatasetError(
            f"shard {name}: offsets go from {offsets[0]} to {offsets[-1]} for {tokens} tokens and must "
            "rise from 0 to that number: the index is damaged"
        )


def _table_items(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    path = root / shard.file("table").path
    length = manifest.packing.context_length if manifest.layout == "rows" else None
    for batch in _record_batches(path, manifest.format):
        lists = batch.column(INPUT_IDS)
        if length is not None:
            offsets = np.arange(len(lists) + 1, dtype=np.int64) * length
        else:
            offsets = np.asarray(lists.offsets).astype(np.int64)
        flat = {name: np.asarray(batch.column(name).flatten()) for name in batch.schema.names}
        yield Items(flat.pop(INPUT_IDS), offsets - offsets[0], flat)


def _record_batches(path: Path, kind: str) -> Iterator[pa.RecordBatch]:
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=4096)
        return
    with pa.memory_map(str(path)) as source:
        yield from pa.ipc.open_stream(source)
