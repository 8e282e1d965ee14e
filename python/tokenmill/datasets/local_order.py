"""An order in which a rank reads few shards at a time: shards are dealt to lanes, rows mix within a window.

The shards of a dataset are permuted and dealt to lanes in turns. A lane reads its shards one after another,
with its rows permuted within each window of shards, and then begins another pass in another order. Position
*g* of a run is row *g // L* of lane *g mod L*. If the world size divides the number of lanes *L*, each lane
belongs to one rank, and ranks need not exchange the positions of their lanes.

The number of rows of a shard is looked up when its lane reaches it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.datasets.layout import RowCounts
from tokenmill.datasets.order import NEVER, Permutation, derive
from tokenmill.errors import DatasetError

Int64s = NDArray[np.int64]

# The number of lanes and the shards of a window.
Local = tuple[int, int]
# Purposes for which keys are derived from the seed.
_DEAL, _PASS, _WINDOW = 1, 2, 3


class _Pass(NamedTuple):
    """One pass of a lane: its shards in order, and the rows before each counted shard."""

    lane: int
    number: int
    shards: Int64s
    sums: list[int]


class LocalOrder:
    """The positions of a run in local order. Epoch *e* is the positions from `e * len(order)` on.

    It has the interface of `Order`. `counts[s]` is the number of rows of shard `s`, which may be computed
    when it is looked up, and `starts[s]` is the number of its first row. `length` is the number of rows, or
    None if it is not known: the first epoch then does not end. A seed of None keeps the order of the files.
    """

    # The rows of a local order are not balanced.
    work = None

    def __init__(
        self,
        counts: RowCounts,
        starts: Int64s,
        length: int | None,
        *,
        seed: int | None,
        local: Local,
        epoch: int = 0,
    ) -> None:
        self.counts = counts
        self.starts = starts
        self.length = length
        self.seed = seed
        self.epoch = epoch
        self.local = local
        self.lanes, self.window = max(1, min(local[0], len(counts))), local[1]
        self._start = epoch * len(self) if epoch else 0
        # The pass and the window of each lane that were used last, and the rows of a pass of each lane.
        self._passes: dict[int, _Pass] = {}
        self._windows: dict[int, tuple[int, Int64s]] = {}
        self._totals: dict[int, int] = {}

    def in_epoch(self, epoch: int) -> LocalOrder:
        """Return this order if it is of that epoch, or the order of another epoch."""
        if epoch == self.epoch:
            return self
        return LocalOrder(
            self.counts, self.starts, self.length, seed=self.seed, local=self.local, epoch=epoch
        )

    def extend(self, _rows: int) -> LocalOrder:
        """Return the same epoch. Rows added to a dataset do not extend a local order."""
        return self

    def __len__(self) -> int:
        return NEVER if self.length is None else self.length

    @property
    def ends(self) -> list[int]:
        """The number of rows of an epoch, in a list as for `Order`."""
        return [len(self)]

    def rows(self, positions: Int64s) -> Int64s:
        """Return the rows at these positions of the epoch."""
        found = np.empty_like(positions)
        turns, lanes = np.divmod(positions + self._start, self.lanes)
        for lane in np.unique(lanes).tolist():
            mine = np.flatnonzero(lanes == lane)
            while len(mine):
                first, rows = self._find_window(lane, int(turns[mine[0]]))
                places = turns[mine] - first
                inside = (places >= 0) & (places < len(rows))
                found[mine[inside]] = rows[places[inside]]
                mine = mine[~inside]
        return found

    def invert(self, rows: Int64s, end: int = NEVER) -> Int64s:
        """Return every position of the epoch before `end` at which one of these rows is read, ascending."""
        found, end = [np.empty(0, np.int64)], min(end, len(self))
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        for lane in range(self.lanes) if end > 0 else ():
            if not np.isin(self._deal(lane), shards).any():
                continue
            first, last = (self._find_pass(lane, (self._start + at) // self.lanes) for at in (0, end - 1))
            for number in range(first, last + 1):
                a_pass = self._begin_pass(lane, number)
                for nth in np.flatnonzero(np.isin(a_pass.shards, shards)).tolist():
                    begin, mixed = self._read_window(a_pass, nth - nth % self.window)
                    turns = begin + np.flatnonzero(np.isin(mixed, rows))
                    found.append(turns * self.lanes + lane - self._start)
        positions = np.unique(np.concatenate(found))
        return positions[(positions >= 0) & (positions < end)]

    def _permute(self, numbers: Int64s, *purpose: int) -> Int64s:
        """Return some numbers in the order of the seed for a purpose."""
        if self.seed is None or not len(numbers):
            return numbers
        return numbers[Permutation(len(numbers), derive(self.seed, *purpose))(np.arange(len(numbers)))]

    def _deal(self, lane: int) -> Int64s:
        """Return the shards of a lane."""
        return self._permute(np.arange(len(self.counts)), _DEAL)[lane :: self.lanes]

    def _begin_pass(self, lane: int, number: int) -> _Pass:
        """Return a pass of a lane."""
        found = self._passes.get(lane)
        if found is None or found.number != number:
            shards = self._permute(self._deal(lane), _PASS, lane, number)
            found = self._passes[lane] = _Pass(lane, number, shards, [0])
        return found

    def _count(self, a_pass: _Pass, shards: int, row: int = NEVER) -> int:
        """Count the rows of a number of shards of a pass, or fewer up to a row. Return the counted rows."""
        sums = a_pass.sums
        while len(sums) <= min(shards, len(a_pass.shards)) and sums[-1] <= row:
            sums.append(sums[-1] + self.counts[int(a_pass.shards[len(sums) - 1])])
        return sums[-1]

    def _count_lane(self, lane: int) -> int:
        """Return the number of rows of a lane. Raise `DatasetError` if it is 0."""
        if lane not in self._totals:
            a_pass = self._passes.get(lane) or self._begin_pass(lane, 0)
            self._totals[lane] = self._count(a_pass, len(a_pass.shards))
        if not self._totals[lane]:
            raise DatasetError(
                f"the shards of lane {lane} of {self.lanes} have no rows: use fewer lanes, or a smaller "
                "context_length"
            )
        return self._totals[lane]

    def _find_pass(self, lane: int, turn: int) -> int:
        """Return the number of the pass that holds a row of a lane."""
        # The rows of a lane are not counted before its second pass.
        if lane not in self._totals and self._count(self._begin_pass(lane, 0), len(self.counts), turn) > turn:
            return 0
        return turn // self._count_lane(lane)

    def _find_window(self, lane: int, turn: int) -> tuple[int, Int64s]:
        """Return the window of a row of a lane: the number of its first row in the lane, and its rows."""
        first, rows = self._windows.get(lane, (0, ()))
        if not first <= turn < first + len(rows):
            a_pass = self._begin_pass(lane, self._find_pass(lane, turn))
            inside = turn - a_pass.number * self._totals.get(lane, 0)
            self._count(a_pass, len(a_pass.shards), inside)
            nth = int(np.searchsorted(a_pass.sums, inside, side="right")) - 1
            self._windows[lane] = self._read_window(a_pass, nth - nth % self.window)
        return self._windows[lane]

    def _read_window(self, a_pass: _Pass, first: int) -> tuple[int, Int64s]:
        """Return a window by its first shard in a pass, as `_find_window` does."""
        lane, number, shards, sums = a_pass
        # This window and the next, so that the next is ready in time.
        self.counts.expect(lane, shards[first : first + 2 * self.window].tolist())
        self._count(a_pass, first + self.window)
        rows = [
            np.arange(start, start + size)
            for start, size in zip(
                self.starts[shards[first : first + self.window]].tolist(),
                np.diff(sums[first : first + self.window + 1]).tolist(),
                strict=True,
            )
        ]
        base = number * self._totals.get(lane, 0)
        return base + sums[first], self._permute(np.concatenate(rows), _WINDOW, lane, number, first)
