"""The base of every format's writer, and of those that write in batches that do not depend on blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.documents import make_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.formats.files import Columns, Items, ShardShape
    from tokenmill.datasets.ledger.receipt import FileEntry

    Batch = tuple[Columns, NDArray[np.int64]]

# A batch of an Arrow or Parquet file ends with the item that reaches either limit. Part of the format.
BATCH_ITEMS = 4096
BATCH_TOKENS = 1 << 20


class ShardWriter(ABC):
    """One shard of one format. Items come in order; the bytes never depend on how they are cut into calls."""

    def __init__(self, shape: ShardShape) -> None:
        self.shape = shape
        self.position = 0
        """Tokens written so far."""
        # By role, in the order in which the receipt lists them.
        self.files: dict[str, DurableFile] = {}

    def open(self, role: str, suffix: str) -> DurableFile:
        """Open a file of this shard, which `close` publishes."""
        self.files[role] = self.shape.open(suffix)
        return self.files[role]

    @abstractmethod
    def write(self, items: Items) -> None:
        """Append items, without what the format has no place for."""

    def write_tokens(self, items: Items) -> None:
        """Append the ids to the file of role `tokens`, and columns to the files of their names if open."""
        first, last = int(items.offsets[0]), int(items.offsets[-1])
        self.files["tokens"].write(self.shape.store(items.ids[first:last]))
        for name, values in items.columns.items():
            if name in self.files:
                self.files[name].write(np.ascontiguousarray(values[first:last]))
        self.position += last - first

    @abstractmethod
    def finish(self) -> None:
        """Write what comes after the last item."""

    def close(self) -> list[FileEntry]:
        """Publish every file of the shard."""
        self.finish()
        return [self.shape.publish(role, file) for role, file in self.files.items()]

    def discard(self) -> None:
        """Remove what was not published."""
        for file in self.files.values():
            file.discard()


class BatchWriter(ShardWriter):
    """Gather items into batches that only the items decide, whatever the calls they come in."""

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
        for batch in self._regroup(
            {self.tokens_as: self.shape.store(items.ids), **items.columns}, items.offsets
        ):
            self.write_batch(*batch)

    def finish(self) -> None:
        """Write the last batch."""
        if self._items:
            self.write_batch(*self._join())

    def _regroup(self, arrays: Columns, offsets: NDArray[np.int64]) -> Iterator[Batch]:
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
                yield self._join()
            offsets = offsets[count:]

    def _join(self) -> Batch:
        names = self._parts[0][0]
        arrays = {name: np.concatenate([part[name] for part, _ in self._parts]) for name in names}
        lengths = np.concatenate([lengths for _, lengths in self._parts])
        self._parts, self._items, self._tokens = [], 0, 0
        return arrays, make_offsets(lengths)
