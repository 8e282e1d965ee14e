"""A shard's shape, and what goes into it and comes out of it: items, which are documents or rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import DurableFile
from tokenmill.datasets.ledger.receipt import SHARDS, FileEntry

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Items:
    """Some documents or rows in order: item *i* is `ids[offsets[i]:offsets[i + 1]]`.

    Columns are as long as `ids`, with the values that files have. Segments say which stretch of which
    document stands where in rows, as a `.seg` file does, with positions from the first of these ids.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    columns: Columns = field(default_factory=dict)
    segments: NDArray[np.uint64] | None = None


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

    def store(self, ids: NDArray[Any]) -> NDArray[Any]:
        """The ids in the type and byte order of the file, contiguous."""
        return np.ascontiguousarray(ids, dtype=np.dtype(self.dtype).newbyteorder("<"))

    def publish(self, role: str, file: DurableFile) -> FileEntry:
        """Publish a file and describe it for the receipt."""
        digest = file.sha256()
        file.publish()
        return FileEntry(role, file.path.relative_to(self.root).as_posix(), file.size, digest)
