"""Code shared by the formats: items, the shape of a shard, stored shards, index files and writers."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import DurableFile
from tokenmill.datasets.documents import find_column, group_documents, make_offsets
from tokenmill.datasets.ledger.receipt import SHARDS, FileEntry, ShardEntry
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import Manifest

Columns = dict[str, Any]
Batch = tuple[Columns, Any]  # arrays and their offsets
HEADER = struct.Struct("<4sIQ")  # magic, version, count
VERSION = 1
OFFSETS_MAGIC = b"TMIX"
HASHES_MAGIC = b"TMDH"
CHECKSUM_BYTES = 16
_CHUNK_TOKENS = 1 << 22
# A batch of an Arrow or Parquet file ends with the item that reaches either limit. Part of the format.
BATCH_ITEMS = 4096
BATCH_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True)
class Items:
    """Some documents or rows in order: item *i* is `ids[offsets[i]:offsets[i + 1]]`.

    Columns have the length of `ids` and the values stored in files.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    columns: Columns = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardShape:
    """The path of a shard and its items: documents (no `context_length`) or rows of that length."""

    root: Path
    name: str
    dtype: str
    context_length: int | None = None
    columns: tuple[str, ...] = ()

    def open(self, suffix: str) -> DurableFile:
        """Open `shards/<name><suffix>` under a temporary name until it is published."""
        return DurableFile(self.root / SHARDS / (self.name + suffix))

    def store(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the ids as a contiguous array in the type and byte order of the file."""
        return np.ascontiguousarray(ids, dtype=np.dtype(self.dtype).newbyteorder("<"))

    def publish(self, role: str, file: DurableFile, items: int | None = None) -> FileEntry:
        """Publish a file and return its entry for the receipt."""
        digest = file.sha256()
        file.publish()
        return FileEntry(role, file.path.relative_to(self.root).as_posix(), file.size, digest, items)


@dataclass(frozen=True, slots=True)
class StoredShard:
    """A shard of a finished dataset, the input of `Format.reader`."""

    root: Path
    manifest: Manifest
    entry: ShardEntry

    def path(self, role: str) -> Path:
        """Return the path of the file of that role."""
        return self.root / self.entry.file(role).path

    def map(self, role: str, dtype: str) -> NDArray[Any]:
        """Map a file of bare little-endian numbers."""
        entry, kind = self.entry.file(role), np.dtype(dtype).newbyteorder("<")
        if entry.bytes % kind.itemsize:
            raise DatasetError(
                f"{entry.path} has {entry.bytes} bytes, not a multiple of {kind.itemsize}: it is damaged"
            )
        return np.memmap(self.root / entry.path, kind, "r") if entry.bytes else np.empty(0, kind)

    def map_tokens(self) -> NDArray[Any]:
        """Map the file of role `tokens`."""
        return self.map("tokens", self.manifest.dtype)

    def map_columns(self) -> Columns:
        """Map the files of all columns."""
        names = self.manifest.packing.columns
        return {name: self.map(name, find_column(name).stored) for name in names}

    def cut(
        self,
        tokens: NDArray[Any],
        offsets: NDArray[Any] | None,
        columns: Columns | None = None,
    ) -> Iterator[Items]:
        """Yield the items in chunks. Rows need no offsets. Raise `DatasetError` for invalid offsets."""
        length = self.manifest.row_length or 1
        if offsets is None:
            offsets = np.arange(len(tokens) // length + 1) * length
        offsets = offsets.astype(np.int64)
        if offsets[0] != 0 or offsets[-1] != len(tokens) or (np.diff(offsets) < 0).any():
            raise DatasetError(
                f"shard {self.entry.name}: offsets go from {offsets[0]} to {offsets[-1]} for {len(tokens)} "
                "tokens, but must rise from 0 to that number: the index is damaged"
            )
        for start, stop in group_documents(offsets, _CHUNK_TOKENS):
            first, last = int(offsets[start]), int(offsets[stop])
            picked = {name: values[first:last] for name, values in (columns or {}).items()}
            yield Items(tokens[first:last], offsets[start : stop + 1] - first, picked)


def make_header(magic: bytes, count: int) -> bytes:
    """Return the 16-byte header of an index file."""
    return HEADER.pack(magic, VERSION, count)


def map_offsets(path: Path) -> NDArray[np.uint64]:
    """Map the u64 offsets of an `.idx` file. Raise `DatasetError` if its size or header is wrong."""
    return _map_u64(path, OFFSETS_MAGIC, per_item=1, extra=1)


def map_hashes(path: Path) -> tuple[NDArray[np.uint64], bytes]:
    """Map a `.hashes` file as u64 rows of (low, high). Return them and their checksum."""
    extra = CHECKSUM_BYTES // 8
    found = _map_u64(path, HASHES_MAGIC, per_item=2, extra=extra)
    return found[:-extra].reshape(-1, 2), found[-extra:].tobytes()


def _map_u64(path: Path, magic: bytes, *, per_item: int, extra: int) -> NDArray[np.uint64]:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(HEADER.size)
    if len(start) < HEADER.size:
        raise DatasetError(
            f"{path} has {size} bytes, fewer than its {HEADER.size}-byte header: it is truncated"
        )
    found, version, count = HEADER.unpack(start)
    if (found, version) != (magic, VERSION):
        raise DatasetError(
            f"{path} starts with {found!r} and version {version}, expected {magic!r} and {VERSION}: it is "
            "another kind of file, or of a newer tokenmill"
        )
    expected = HEADER.size + 8 * (count * per_item + extra)
    if size != expected:
        raise DatasetError(f"{path} has {size} bytes, its header promises {expected}: it is damaged")
    if size == HEADER.size:
        return np.empty(0, dtype="<u8")
    return np.memmap(path, dtype="<u8", mode="r", offset=HEADER.size)


class ShardWriter(ABC):
    """Write one shard in one format. The bytes do not depend on how the items are split into calls."""

    def __init__(self, shape: ShardShape) -> None:
        self.shape = shape
        # By role, in the order in which the receipt lists them.
        self.files: dict[str, DurableFile] = {}

    def open(self, role: str, suffix: str) -> DurableFile:
        """Open a file of this shard, which `close` publishes."""
        self.files[role] = self.shape.open(suffix)
        return self.files[role]

    @abstractmethod
    def write(self, items: Items) -> None:
        """Append items. Ignore columns that the format cannot store."""

    @abstractmethod
    def finish(self) -> None:
        """Write the data that follows the last item."""

    def close(self) -> list[FileEntry]:
        """Publish every file of the shard."""
        self.finish()
        return [self.shape.publish(role, file) for role, file in self.files.items()]

    def discard(self) -> None:
        """Remove the unpublished files."""
        for file in self.files.values():
            file.discard()


class BatchWriter(ShardWriter):
    """Gather items into batches whose bounds depend on the items alone, not on the calls."""

    tokens_as = "tokens"

    def __init__(self, shape: ShardShape, items: int = BATCH_ITEMS, tokens: int = BATCH_TOKENS) -> None:
        super().__init__(shape)
        self._limits = items, tokens
        self._parts: list[Batch] = []
        self._items = self._tokens = 0

    @abstractmethod
    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """Write one batch: token ids (under `tokens_as`) and columns, and offsets from 0."""

    def write(self, items: Items) -> None:
        """Gather items and write the batches that are full."""
        arrays, offsets = {self.tokens_as: self.shape.store(items.ids), **items.columns}, items.offsets
        most_items, most_tokens = self._limits
        while len(offsets) > 1:
            by_tokens = int(np.searchsorted(offsets[1:] - offsets[0], most_tokens - self._tokens)) + 1
            count = min(by_tokens, most_items - self._items, len(offsets) - 1)
            first, last = int(offsets[0]), int(offsets[count])
            part = {name: array[first:last] for name, array in arrays.items()}
            self._parts.append((part, np.diff(offsets[: count + 1])))
            self._items += count
            self._tokens += last - first
            if self._items >= most_items or self._tokens >= most_tokens:
                self._flush()
            offsets = offsets[count:]

    def finish(self) -> None:
        """Write the last batch."""
        if self._items:
            self._flush()

    def _flush(self) -> None:
        names = self._parts[0][0]
        arrays = {name: np.concatenate([part[name] for part, _ in self._parts]) for name in names}
        lengths = np.concatenate([lengths for _, lengths in self._parts])
        self._parts, self._items, self._tokens = [], 0, 0
        self.write_batch(arrays, make_offsets(lengths))
