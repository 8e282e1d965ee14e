"""Compute the order of the rows of an epoch.

A keyed Feistel network permutes the smallest power of two that holds the rows. An out-of-range result is
permuted again ("cycle walking", fewer than two rounds on average), so the mapping stays one to one.
A table for a billion rows would take 8 GB in every rank. This takes a few keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from tokenmill.datasets.layout import IndexLayout, PositionLayout

Int64s = NDArray[np.int64]

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
# Below six rounds the halves of a small domain are visibly correlated. Eight cost 2 us a row in Python.
_ROUNDS = 8
# Below this many positions, Python integers are faster than forty NumPy calls.
_FEW = 16
# Rows that a balanced order sorts by work at a time, and most rows per group. They determine the order.
BLOCK = 1 << 17
GROUP = 1 << 8
# The length of an epoch that does not end, and the position of a row that is not read.
NEVER = np.iinfo(np.int64).max
# Purposes for which a local order derives keys from the seed.
_DEAL, _PASS, _WINDOW = 1, 2, 3


def mix(value: Any) -> Any:
    """Return SplitMix64's finaliser of an integer or of an array of uint64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)


def derive(seed: int, *parts: int) -> int:
    """Return one key for a seed and some numbers: `derive(1, epoch)` differs for every epoch."""
    key = mix(seed & _WORD ^ _GOLDEN)
    for part in parts:
        key = mix((key + _GOLDEN + (part & _WORD)) & _WORD)
    return int(key)


class Permutation:
    """A one-to-one mapping of `range(length)`: `Permutation(10, seed=1)(np.arange(10))` -> rows 0..9."""

    def __init__(self, length: int, seed: int) -> None:
        self.length = length
        bits = max((length - 1).bit_length(), 2)
        self._low_bits = bits // 2
        self._low_mask = (1 << self._low_bits) - 1
        self._high_mask = (1 << (bits - self._low_bits)) - 1
        self._keys = [derive(seed, turn) for turn in range(_ROUNDS)]

    def __call__(self, positions: Int64s) -> Int64s:
        """Return the rows at these positions."""
        return self._walk(positions, self._step)

    def invert(self, rows: Int64s) -> Int64s:
        """Return the positions of these rows."""
        return self._walk(rows, self._step_back)

    def _walk(self, numbers: Int64s, step: Callable[[Any], Any]) -> Int64s:
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.length):
            raise IndexError(f"a position or row is outside 0..{self.length - 1}")
        if len(numbers) < _FEW:
            found = []
            for number in numbers.tolist():
                value = step(number)
                while value >= self.length:
                    value = step(value)
                found.append(value)
            return np.array(found, dtype=np.int64)
        values = step(numbers.astype(np.uint64))
        outside = np.flatnonzero(values >= self.length)
        while len(outside):
            values[outside] = step(values[outside])
            outside = outside[values[outside] >= self.length]
        found_rows: Int64s = values.astype(np.int64)
        return found_rows

    def _step(self, value: Any) -> Any:
        high, low = value >> self._low_bits, value & self._low_mask
        for turn in range(0, _ROUNDS, 2):
            high = high ^ mix((low + self._keys[turn]) & _WORD) & self._high_mask
            low = low ^ mix((high + self._keys[turn + 1]) & _WORD) & self._low_mask
        return high << self._low_bits | low

    def _step_back(self, value: Any) -> Any:
        high, low = value >> self._low_bits, value & self._low_mask
        for turn in range(_ROUNDS - 2, -1, -2):
            low = low ^ mix((high + self._keys[turn + 1]) & _WORD) & self._low_mask
            high = high ^ mix((low + self._keys[turn]) & _WORD) & self._high_mask
        return high << self._low_bits | low


class Order:
    """The order of an epoch: `Order([1000], seed=1).rows(np.array([0, 1]))` -> its first two rows.

    A dataset may grow while a run is in the middle of an epoch. The old rows keep their order, and the new
    ones follow, shuffled among themselves. The next epoch shuffles all rows together. An order therefore
    consists of segments, usually one. `ends` are the row counts up to the end of each. A seed of None keeps
    the order of the files.

    With `work`, the shuffled rows are balanced: each block is sorted by work and cut into groups, which
    `deal_groups` orders. Ranks that take turns then get rows of similar work, and every part of an epoch has
    about the same mean work. The order does not depend on the world size.
    """

    # The lanes and the window of a `LocalOrder`.
    local = None

    def __init__(
        self,
        ends: list[int],
        *,
        seed: int | None,
        epoch: int = 0,
        work: Callable[[Int64s], Int64s] | None = None,
    ) -> None:
        self.ends = list(ends)
        self.seed = seed
        self.epoch = epoch
        self.work = work
        # The block that was used last.
        self._block: tuple[int, Int64s] = (-1, np.empty(0, np.int64))

    def __len__(self) -> int:
        return self.ends[-1]

    @cached_property
    def _segments(self) -> list[tuple[int, int, Permutation]]:
        bounds = zip([0, *self.ends[:-1]], self.ends, strict=True)
        return [
            (start, end, Permutation(end - start, derive(self.seed or 0, self.epoch, nth)))
            for nth, (start, end) in enumerate(bounds)
        ]

    def rows(self, positions: Int64s) -> Int64s:
        """Return the rows at these positions of the epoch."""
        if self.work is not None:
            positions = self._balance(positions, inverse=False)
        return self._apply(positions, Permutation.__call__)

    def invert(self, rows: Int64s, _end: int = 0) -> Int64s:
        """Return the positions of these rows in the epoch. Only a `LocalOrder` needs an end."""
        positions = self._apply(rows, Permutation.invert)
        return positions if self.work is None else self._balance(positions, inverse=True)

    def _balance(self, positions: Int64s, *, inverse: bool) -> Int64s:
        """Map positions of the balanced order to positions of the shuffled one, or back."""
        found = np.empty_like(positions)
        for start, end, _ in self._segments:
            inside = (positions >= start) & (positions < end)
            firsts = start + (positions - start) // BLOCK * BLOCK
            for first in np.unique(firsts[inside]).tolist():
                mine = inside & (firsts == first)
                order = self._sort_block(first, min(first + BLOCK, end))
                order = np.argsort(order) if inverse else order
                found[mine] = first + order[positions[mine] - first]
        return found

    def _sort_block(self, first: int, last: int) -> Int64s:
        """Return the order of a block: groups of similar work, an incomplete group last."""
        if self._block[0] == first:
            return self._block[1]
        assert self.work is not None, "only a balanced order has blocks"
        work = self.work(self._apply(np.arange(first, last), Permutation.__call__))
        ranked = np.argsort(work, kind="stable")
        # Few rows are cut into at least 16 groups.
        group = min(GROUP, 1 << max(len(ranked).bit_length() - 5, 0))
        key = derive(self.seed or 0, self.epoch, first, 1)
        count, rest = divmod(len(ranked), group)
        # The incomplete group is chosen at random, so that an epoch need not end with its heaviest rows.
        odd = key % (count + 1) * group
        whole = np.delete(ranked, np.s_[odd : odd + rest]).reshape(count, group)
        dealt = whole[deal_groups(work[whole].sum(axis=1), key)]
        self._block = first, np.concatenate([dealt.reshape(-1), ranked[odd : odd + rest]])
        return self._block[1]

    def _apply(self, numbers: Int64s, mapping: Callable[[Permutation, Int64s], Int64s]) -> Int64s:
        if self.seed is None or not len(numbers):
            return numbers
        if len(self._segments) == 1:
            return mapping(self._segments[0][2], numbers)
        found = np.empty_like(numbers)
        for start, end, permutation in self._segments:
            inside = (numbers >= start) & (numbers < end)
            found[inside] = start + mapping(permutation, numbers[inside] - start)
        return found

    def in_epoch(self, epoch: int) -> Order:
        """Return this order if it is of that epoch, or another epoch with all rows in one segment."""
        if epoch == self.epoch:
            return self
        return Order([self.ends[-1]], seed=self.seed, epoch=epoch, work=self.work)


def deal_groups(work: Int64s, key: int) -> list[int]:
    """Return an order of groups of rising work in which every part has about the same mean work.

    A scrambled bit reversal puts one group of each 2^k-th of the range into any aligned run of 2^k. From it,
    the next group above the mean work is taken while the groups so far are below it, and the other way
    round. A part therefore differs from the mean by the work of about one group.
    """
    number: NDArray[Any] = np.arange(len(work), dtype=np.uint64)
    place: NDArray[Any] = np.zeros_like(number)
    for bit in range(len(work).bit_length()):
        number, low = number >> 1, number & 1
        place = place << 1 | low ^ mix(place << 32 ^ number ^ derive(key, bit)) & 1
    excess = (work * len(work) - work.sum()).tolist()
    shuffled = np.argsort(place, kind="stable").tolist()
    light, heavy = ([group for group in shuffled if (excess[group] > 0) == above] for above in (False, True))
    found, total = [], 0
    while light or heavy:
        found.append((heavy if heavy and (total <= 0 or not light) else light).pop())
        total += excess[found[-1]]
    # Begin anywhere in the cycle, or every epoch would begin with a heavy group.
    begin = key % len(work)
    return found[begin:] + found[:begin]


class _Pass(NamedTuple):
    """One pass of a lane: its shards in order, and the rows before each counted shard."""

    lane: int
    number: int
    shards: Int64s
    sums: list[int]


class LocalOrder:
    """An order in which a rank reads few shards at a time. It has the interface of `Order`.

    The shards are permuted and dealt to lanes in turns. A lane reads its shards one after another, with its
    rows permuted within each window of shards, and then begins another pass in another order. Position *g*
    of a run is row *g // L* of lane *g mod L*. If the world size divides the number of lanes *L*, each lane
    belongs to one rank. Epoch *e* is the positions from `e * len(order)` on. The first epoch of a stream,
    whose rows are not counted, does not end.
    """

    # The rows of a local order are not balanced.
    work = None

    def __init__(
        self,
        layout: PositionLayout | IndexLayout,
        *,
        seed: int | None,
        local: tuple[int, int],
        epoch: int = 0,
    ) -> None:
        """Order the rows of a layout. `local` is the number of lanes and of the shards in a window."""
        self.layout = layout
        self.seed = seed
        self.epoch = epoch
        self.local = local
        self.starts = np.array(layout.row_starts[:-1], dtype=np.int64)
        self.lanes, self.window = max(1, min(local[0], len(self.starts))), local[1]
        # The number of rows of an epoch, in a list as for `Order`.
        self.ends = [NEVER if layout.shards.endless else layout.rows]
        self._start = epoch * len(self)
        # The pass and the window of each lane that were used last, and the rows of a pass of each lane.
        self._passes: dict[int, _Pass] = {}
        self._windows: dict[int, tuple[int, Int64s]] = {}
        self._totals: dict[int, int] = {}

    def in_epoch(self, epoch: int) -> LocalOrder:
        """Return this order if it is of that epoch, or the order of another epoch."""
        if epoch == self.epoch:
            return self
        return LocalOrder(self.layout, seed=self.seed, local=self.local, epoch=epoch)

    def __len__(self) -> int:
        return self.ends[0]

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
        return self._permute(np.arange(len(self.starts)), _DEAL)[lane :: self.lanes]

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
            sums.append(sums[-1] + self.layout.count(int(a_pass.shards[len(sums) - 1])))
        return sums[-1]

    def _find_pass(self, lane: int, turn: int) -> int:
        """Return the number of the pass that holds a row of a lane. Raise `DatasetError` without any rows."""
        if lane not in self._totals:
            a_pass = self._begin_pass(lane, 0)
            # The rows of a lane are not counted before its second pass.
            if self._count(a_pass, len(a_pass.shards), turn) > turn:
                return 0
            self._totals[lane] = self._count(a_pass, len(a_pass.shards))
        if not self._totals[lane]:
            raise DatasetError(f"lane {lane} has no rows: use fewer lanes, or a smaller context_length")
        return turn // self._totals[lane]

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
        self.layout.shards.expect(lane, shards[first : first + 2 * self.window].tolist())
        self._count(a_pass, first + self.window)
        firsts, sizes = self.starts[shards[first : first + self.window]], np.diff(sums[first:])
        rows = [np.arange(start, start + size) for start, size in zip(firsts, sizes, strict=False)]
        base = number * self._totals.get(lane, 0)
        return base + sums[first], self._permute(np.concatenate(rows), _WINDOW, lane, number, first)
