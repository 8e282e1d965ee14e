"""An order in which a rank reads few shards at a time: shards are dealt to lanes, rows mix within a window.

The shards of a dataset are permuted and dealt to lanes in turns. A lane reads its shards one after another,
with its rows permuted within each window of shards, and then begins another pass in another order. Position
*g* of a run is row *g // L* of lane *g mod L*. If the world size divides the number of lanes *L*, each lane
belongs to one rank, and ranks need not exchange the positions of their lanes.

The number of rows of a shard is looked up when its lane reaches it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

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
# Passes to cache per lane: a rank is in one pass of each of its lanes, or between two.
_KEPT = 2


@dataclass(slots=True)
class _Pass:
    """One pass of a lane: its shards in order, and the rows before each counted shard."""

    lane: int
    shards: Int64s
    sums: list[int] = field(default_factory=lambda: [0])


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
        self._permutations: dict[tuple[int, ...], Permutation] = {}
        self._dealt = self._permute(len(counts), _DEAL)
        self._passes: OrderedDict[tuple[int, int], _Pass] = OrderedDict()
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
                number, base, first, sums = self._find_window(lane, int(turns[mine[0]]))
                places = turns[mine] - base - sums[0]
                inside = (places >= 0) & (places < sums[-1] - sums[0])
                mixed = self._permute(int(sums[-1] - sums[0]), _WINDOW, lane, number, first)
                places = sums[0] + (places[inside] if mixed is None else mixed(places[inside]))
                nth = np.searchsorted(sums, places, side="right") - 1
                shards = self._passes[lane, number].shards[first + nth]
                found[mine[inside]] = self.starts[shards] + places - sums[nth]
                mine = mine[~inside]
        return found

    def invert(self, rows: Int64s) -> Int64s:
        """Return every position of the epoch at which one of these rows is read, in ascending order."""
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        dealt = shards if self._dealt is None else self._dealt.invert(shards)
        found = []
        for row, shard, lane in zip(
            rows.tolist(), shards.tolist(), (dealt % self.lanes).tolist(), strict=True
        ):
            total = self._count_lane(lane)
            first = self._start // self.lanes // total
            # Search one pass of an endless order.
            last = first if self.length is None else (self._start + self.length) // self.lanes // total
            for number in range(first, last + 1):
                turn = self._find_turn(lane, number, shard, row - int(self.starts[shard]))
                found.append((number * total + turn) * self.lanes + lane - self._start)
        inside = [position for position in found if 0 <= position < len(self)]
        return np.array(sorted(inside), dtype=np.int64)

    @property
    def _start(self) -> int:
        return self.epoch * len(self) if self.epoch else 0

    def _permute(self, size: int, *purpose: int) -> Permutation | None:
        if self.seed is None:
            return None
        if purpose not in self._permutations:
            if len(self._permutations) > _KEPT * self.lanes:
                self._permutations.clear()
            self._permutations[purpose] = Permutation(size, derive(self.seed, *purpose))
        return self._permutations[purpose]

    def _begin_pass(self, lane: int, number: int) -> _Pass:
        """Return a pass of a lane."""
        key = lane, number
        if key not in self._passes:
            dealt = np.arange(lane, len(self.counts), self.lanes)
            shards = dealt if self._dealt is None else self._dealt(dealt)
            order = self._permute(len(shards), _PASS, lane, number)
            shards = shards if order is None else shards[order(np.arange(len(shards)))]
            self._passes[key] = _Pass(lane, shards)
            if len(self._passes) > _KEPT * self.lanes:
                self._passes.popitem(last=False)
        self._passes.move_to_end(key)
        return self._passes[key]

    def _count(self, a_pass: _Pass, *, row: int = NEVER, shards: int | None = None) -> bool:
        """Count rows of shards up to a row or a number of shards. Return False if there is no such row."""
        most = len(a_pass.shards) if shards is None else min(shards, len(a_pass.shards))
        sums = a_pass.sums
        while len(sums) <= most and (shards is not None or sums[-1] <= row):
            nth = len(sums) - 1
            if not nth % self.window:
                # This window and the next, so that the next is ready in time.
                self.counts.expect(a_pass.lane, a_pass.shards[nth : nth + 2 * self.window].tolist())
            sums.append(sums[-1] + self.counts[int(a_pass.shards[nth])])
        return sums[-1] > row

    def _count_lane(self, lane: int) -> int:
        """Return the number of rows of a lane. Raise `DatasetError` if it is 0."""
        if lane not in self._totals:
            first = self._begin_pass(lane, 0)
            self._count(first)
            self._totals[lane] = first.sums[-1]
        if not self._totals[lane]:
            raise DatasetError(
                f"the shards of lane {lane} of {self.lanes} have no rows: use fewer lanes, or a smaller "
                "context_length"
            )
        return self._totals[lane]

    def _find_window(self, lane: int, turn: int) -> tuple[int, int, int, Int64s]:
        """Return the pass of a lane's row, the rows before that pass, and the window of shards in it.

        A window is the index of its first shard, and the rows of the pass before each of its shards and at
        its end.
        """
        number = base = 0
        if not (lane not in self._totals and self._count(self._begin_pass(lane, 0), row=turn)):
            number = turn // self._count_lane(lane)
            base = number * self._count_lane(lane)
        found = self._begin_pass(lane, number)
        self._count(found, row=turn - base)
        nth = int(np.searchsorted(found.sums, turn - base, side="right")) - 1
        first = nth - nth % self.window
        self._count(found, shards=first + self.window)
        return number, base, first, np.array(found.sums[first : first + self.window + 1])

    def _find_turn(self, lane: int, number: int, shard: int, row: int) -> int:
        """Return the index of a row of a shard in a pass of a lane."""
        found = self._begin_pass(lane, number)
        nth = int(np.flatnonzero(found.shards == shard)[0])
        first = nth - nth % self.window
        self._count(found, shards=first + self.window)
        start, end = found.sums[first], found.sums[min(first + self.window, len(found.shards))]
        mixed = self._permute(end - start, _WINDOW, lane, number, first)
        place = np.array([found.sums[nth] - start + row])
        return start + int((place if mixed is None else mixed.invert(place))[0])
