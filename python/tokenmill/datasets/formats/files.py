"""Code shared by the formats: items, the shape of a shard, index files and writers."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import DurableFile
from tokenmill.datasets.documents import make_offsets
from tokenmill.datasets.ledger.receipt import SHARDS, FileEntry
from tokenmill.errors import DatasetError

Columns = dict[str, Any]
Batch = tuple[Columns, Any]  # arrays and their offsets
HEADER = struct.Struct("<4sIQ")  # magic, version, count
VERSION = 1
OFFSETS_MAGIC = b"TMIX"
HASHES_MAGIC = b"TMDH"
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


def map_numbers(path: Path, magic: bytes, *, per_item: int, extra: int) -> NDArray[np.uint64]:
    """Map the u64 numbers of an index file. Raise `DatasetError` if its size or header is wrong."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(HEADER.size).ljust(HEADER.size, b"\0")
    found, version, count = HEADER.unpack(start)
    if (found, version) != (magic, VERSION) or size != HEADER.size + 8 * (count * per_item + extra):
        raise DatasetError(
            f"{path} has {size} bytes, {found!r}, version {version} and {count} items; expected {magic!r}, "
            f"version {VERSION} and all items: it is damaged, or of a newer tokenmill"
        )
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
