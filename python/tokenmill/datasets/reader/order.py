"""The order of an epoch: position -> row, with a shuffle per epoch and room for data that came later.

A dataset may grow while a run is in the middle of an epoch. The rows that were there come first, in
the order in which they were going to come; the new ones follow, shuffled among themselves; the next
epoch shuffles all of them together. So an order is a list of segments, nearly always of one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.reader.shuffle import Permutation, derive

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Order:
    """`Order([1000], seed=1, epoch=0).rows(np.array([0, 1]))` -> the first two rows of the epoch.

    `ends` are the row counts up to the end of each segment; the last is the number of rows. A seed of
    None keeps the order of the file.
    """

    def __init__(self, ends: list[int], *, seed: int | None, epoch: int = 0) -> None:
        self.ends = list(ends)
        self.seed = seed
        self.epoch = epoch

    def __len__(self) -> int:
        return self.ends[-1]

    @cached_property
    def _segments(self) -> list[tuple[int, int, Permutation]]:
        seed = self.seed or 0
        starts = [0, *self.ends[:-1]]
        spans = enumerate(zip(starts, self.ends, strict=True))
        return [
            (start, end, Permutation(end - start, derive(seed, self.epoch, index)))
            for index, (start, end) in spans
        ]

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows at these positions of the epoch."""
        if self.seed is None or not len(positions):
            return positions
        if len(self._segments) == 1:
            return self._segments[0][2][positions]
        found = np.empty_like(positions)
        for start, end, permutation in self._segments:
            inside = (positions >= start) & (positions < end)
            found[inside] = start + permutation[positions[inside] - start]
        return found

    def invert(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions of these rows in the epoch: the inverse of `rows`."""
        if self.seed is None or not len(rows):
            return rows
        found = np.empty_like(rows)
        for start, end, permutation in self._segments:
            inside = (rows >= start) & (rows < end)
            found[inside] = start + permutation.invert(rows[inside] - start)
        return found

    def in_epoch(self, epoch: int) -> Order:
        """This epoch as it is, or a later one, with everything in one segment."""
        return self if epoch == self.epoch else Order([self.ends[-1]], seed=self.seed, epoch=epoch)

    def extend(self, rows: int) -> Order:
        """The same epoch with `rows` rows in all: the new ones come after the old ones."""
        return self if rows == self.ends[-1] else Order([*self.ends, rows], seed=self.seed, epoch=self.epoch)
