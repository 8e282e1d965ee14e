"""What every format writer shares: a shard's shape, its files, batches that do not depend on blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tokenmill.base.durable import DurableFile
from tokenmill.datasets.ledger.receipt import SHARDS, FileEntry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]

# A batch of an Arrow or Parquet file ends with the item that reaches either limit. Part of the format.
BATCH_ITEMS = 4096
BATCH_TOKENS = 1 << 20
SPOOL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardShape:
    """Where a shard goes and what its items are: documents (no `context_length`) or rows of that many ids."""

    root: Path
    name: str
    dtype: str
    context_length: int | None = None
    columns: tuple[str, ...] = ()
    keep_in_memory: bool = False

    def open(self, suffix: str) -> DurableFile:
        """A file `shards/<name><suffix>` that appears when it is published."""
        return DurableFile(self.root / SHARDS / (self.name + suffix), keep_in_memory=self.keep_in_memory)

    def stored(self, ids: memoryview | NDArray[Any]) -> NDArray[Any]:
        """The ids in the type and byte order of the file, contiguous."""
        return np.ascontiguousarray(ids, dtype=np.dtype(self.dtype).newbyteorder("<"))

    def publish(self, role: str, file: DurableFile) -> FileEntry:
        """Publish a file and describe it for the receipt."""
        digest = file.sha256()
        file.publish()
        return FileEntry(role, file.path.relative_to(self.root).as_posix(), file.size, digest)


class ShardWriter(Protocol):
    """One shard of one format. Items come in order; the bytes never depend on how they are cut into calls."""

    def write(
        self,
        ids: NDArray[Any],
        offsets: NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append items `ids[offsets[i]:offsets[i + 1]]`; columns are as long as `ids`."""

    def close(self) -> list[FileEntry]:
        """Publish every file of the shard."""

    def discard(self) -> None:
        """Remove what was not published."""


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
                yield self._joined()
            offsets = offsets[count:]

    def flush(self) -> Iterator[tuple[Columns, NDArray[np.int64]]]:
        """The last batch, if anything is held."""
        if self._held_items:
            yield self._joined()

    def _joined(self) -> tuple[Columns, NDArray[np.int64]]:
        names = self._parts[0][0]
        arrays = {name: np.concatenate([part[name] for part, _ in self._parts]) for name in names}
        lengths = np.concatenate([lengths for _, lengths in self._parts])
        self._parts, self._held_items, self._held_tokens = [], 0, 0
        return arrays, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


class Spool:
    """Numbers kept for the end of a shard, on the disk so that memory stays bounded."""

    def __init__(self, directory: Path, dtype: str) -> None:
        """An empty spool in an anonymous file of `directory`."""
        import tempfile  # here, since it brings much along that few formats need

        directory.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self._dtype = np.dtype(dtype)
        self.count = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.count += len(values)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All values again, some at a time."""
        self._file.seek(0)
        while data := self._file.read(SPOOL_BYTES):
            yield np.frombuffer(data, dtype=self._dtype)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()
