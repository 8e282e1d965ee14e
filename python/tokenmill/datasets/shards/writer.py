"""The base of every format's writer, and of those that write in batches that do not depend on blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry
    from tokenmill.datasets.shards.items import Columns, Items, ShardShape

# A batch of an Arrow or Parquet file ends with the item that reaches either limit. Part of the format.
BATCH_ITEMS = 4096
BATCH_TOKENS = 1 << 20


class ShardWriter(ABC):
    """One shard of one format. Items come in order; the bytes never depend on how they are cut into calls."""

    def __init__(self, shape: ShardShape) -> None:
        self.shape = shape
        # By role, in the order in which the receipt lists them.
        self.files: dict[str, DurableFile] = {}

    def open(self, role: str, suffix: str) -> DurableFile:
        """A file of this shard, published by `close`."""
        self.files[role] = self.shape.open(suffix)
        return self.files[role]

    @abstractmethod
    def write(self, items: Items) -> None:
        """Append items; what the format has no place for is left out."""

    def close(self) -> list[FileEntry]:
        """Publish every file of the shard."""
        return [self.shape.publish(role, file) for role, file in self.files.items()]

    def discard(self) -> None:
        """Remove what was not published."""
        for file in self.files.values():
            file.discard()


class BatchWriter(ShardWriter):
    """A writer of batches that only the items decide, whatever the calls they come in."""

    tokens_as = "tokens"

    def __init__(self, shape: ShardShape, batches: Regroup | None = None) -> None:
        super().__init__(shape)
        self._batches = batches or Regroup()

    @abstractmethod
    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """Write one batch: token ids (under `tokens_as`) and columns, and offsets from 0."""

    def write(self, items: Items) -> None:
        """Gather items and write the batches that are full."""
        ids, offsets = items.ids, items.offsets
        for batch in self._batches.push({self.tokens_as: self.shape.store(ids), **items.columns}, offsets):
            self.write_batch(*batch)

    def close(self) -> list[FileEntry]:
        """Write the last batch and publish."""
        for batch in self._batches.flush():
            self.write_batch(*batch)
        self.finish()
        return super().close()

    def finish(self) -> None:
        """What comes after the last batch; nothing for most."""


class ChunkWriter(BatchWriter):
    """A file for each batch, published as soon as it is full: `.00000.bin`, then `.00001.bin`.

    Files of a unit that did not end have no receipt, and the next try writes them again.
    """

    chunk_bytes = 1 << 26
    role = ""
    suffix = ""

    def __init__(self, shape: ShardShape, bytes_per_token: int) -> None:
        # Chunks have offsets of 32 bits, so one must end well below 4 GiB whatever the last item brings.
        super().__init__(shape, Regroup(items=1 << 22, tokens=self.chunk_bytes // bytes_per_token))
        self._chunks: list[FileEntry] = []

    def write_chunk(self, items: int, *parts: Any) -> None:
        """Publish the next file: the number of items, and these parts."""
        file = self.shape.open(f".{len(self._chunks):05d}{self.suffix}")
        try:
            for part in (items.to_bytes(4, "little"), *parts):
                file.write(part)
            self._chunks.append(replace(self.shape.publish(self.role, file), items=items))
        finally:
            file.discard()

    def close(self) -> list[FileEntry]:
        """Write the last chunk."""
        super().close()
        return self._chunks

    @classmethod
    def list_chunks(cls, root: Path, manifest: Manifest) -> Iterator[tuple[FileEntry, int]]:
        """Every file of a finished dataset and its number of items; receipts once did not have it."""
        for entry in (entry for shard in manifest.shards for entry in shard.files if entry.role == cls.role):
            if entry.items is not None:
                yield entry, entry.items
                continue
            with (root / entry.path).open("rb") as file:
                yield entry, int.from_bytes(file.read(4), "little")


@dataclass
class Regroup:
    """Items in calls of any size, out in batches that only the items decide."""

    items: int = BATCH_ITEMS
    tokens: int = BATCH_TOKENS
    _parts: list[tuple[Columns, NDArray[np.int64]]] = field(default_factory=list)
    _held_items: int = 0
    _held_tokens: int = 0

    def push(
        self, arrays: Columns, offsets: NDArray[np.int64]
    ) -> Iterator[tuple[Columns, NDArray[np.int64]]]:
        """Add items; yields every batch that is full, as `(arrays, offsets from 0)`."""
        while len(offsets) > 1:
            by_tokens = int(np.searchsorted(offsets[1:] - offsets[0], self.tokens - self._held_tokens)) + 1
            count = min(by_tokens, self.items - self._held_items, len(offsets) - 1)
            first, last = int(offsets[0]), int(offsets[count])
            part = {name: array[first:last] for name, array in arrays.items()}
            self._parts.append((part, np.diff(offsets[: count + 1])))
            self._held_items += count
            self._held_tokens += last - first
            if self._held_items >= self.items or self._held_tokens >= self.tokens:
                yield self._join()
            offsets = offsets[count:]

    def flush(self) -> Iterator[tuple[Columns, NDArray[np.int64]]]:
        """The last batch, if anything is held."""
        if self._held_items:
            yield self._join()

    def _join(self) -> tuple[Columns, NDArray[np.int64]]:
        names = self._parts[0][0]
        arrays = {name: np.concatenate([part[name] for part, _ in self._parts]) for name in names}
        lengths = np.concatenate([lengths for _, lengths in self._parts])
        self._parts, self._held_items, self._held_tokens = [], 0, 0
        return arrays, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
