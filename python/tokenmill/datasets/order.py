"""Compute the order of rows: the permutation of an epoch, and the turns of a mixture.

A keyed Feistel network permutes the smallest power of two that holds the rows. An out-of-range result is
permuted again ("cycle walking", fewer than two rounds on average), so the mapping stays one to one.
A table for a billion rows would take 8 GB in every rank. This takes a few keys.

The weights of a mixture become whole numbers of turns in a period, which repeats within a stage, so any row
is found in O(1). After any number of rows of a stage each source has had its share of them to within one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core

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
_KEPT = 4


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
        self._blocks: dict[int, Int64s] = {}

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
        order = self._blocks.get(first)
        if order is None:
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
            order = np.concatenate([dealt.reshape(-1), ranked[odd : odd + rest]])
            self._blocks[first] = order
            if len(self._blocks) > _KEPT:
                self._blocks.pop(next(iter(self._blocks)), None)
        return order

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

    def extend(self, rows: int) -> Order:
        """Return the same epoch with `rows` rows in all: the new ones come after the old ones."""
        if rows == self.ends[-1]:
            return self
        return Order([*self.ends, rows], seed=self.seed, epoch=self.epoch, work=self.work)


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


# Weights with a common denominator up to this (six decimals) are exact.
LONGEST_PERIOD = 1_000_000
# Other weights are rounded to a multiple of 1 / NEAREST_PERIOD.
NEAREST_PERIOD = 1 << 16
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Stage:
    """From row `start` on, each source has `turns` of every `sum(turns)` rows."""

    start: int
    turns: tuple[int, ...]

    def weight(self, source: int) -> Fraction:
        """Return the exact share of a source."""
        return Fraction(self.turns[source], sum(self.turns))

    @cached_property
    def pattern(self) -> NDArray[np.uint16]:
        """The source of each row of a period."""
        return _core.deal_turns(self.turns)

    @cached_property
    def offsets(self) -> list[Int64s]:
        """The rows of a period that belong to each source."""
        return [np.flatnonzero(self.pattern == source) for source in range(len(self.turns))]

    @cached_property
    def ordinals(self) -> Int64s:
        """The number of each row of a period among the rows of its source."""
        found = np.empty(len(self.pattern), dtype=np.int64)
        for offsets in self.offsets:
            found[offsets] = np.arange(len(offsets))
        return found

    def count(self, rows: int) -> Int64s:
        """Return how many of the first rows of the stage belong to each source."""
        periods, rest = divmod(rows, len(self.pattern))
        inside = np.bincount(self.pattern[:rest], minlength=len(self.turns))
        return periods * np.array(self.turns, dtype=np.int64) + inside


class Schedule:
    """`Schedule([Stage(0, (2, 1))]).locate(np.arange(3))` -> sources `[0, 1, 0]`, turns `[0, 0, 1]`."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)
        self._starts = np.array([stage.start for stage in self.stages], dtype=np.int64)
        counts = [np.zeros(len(self.stages[0].turns), dtype=np.int64)]
        for stage, rows in zip(self.stages, np.diff(self._starts).tolist(), strict=False):
            counts.append(counts[-1] + stage.count(rows))
        # The turns that each source has had before each stage.
        self._counts = np.array(counts)

    def locate(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return the source and the turn number of each row."""
        homes = np.searchsorted(self._starts, rows, side="right") - 1
        sources, turns = np.empty_like(rows), np.empty_like(rows)
        for nth in np.unique(homes).tolist():
            mine, stage = homes == nth, self.stages[nth]
            periods, offsets = np.divmod(rows[mine] - stage.start, len(stage.pattern))
            chosen = stage.pattern[offsets].astype(np.int64)
            sources[mine] = chosen
            each = np.array(stage.turns, dtype=np.int64)[chosen]
            turns[mine] = self._counts[nth][chosen] + periods * each + stage.ordinals[offsets]
        return sources, turns

    def find(self, source: int, turns: Int64s) -> Int64s:
        """Return the row of each turn of a source, or `NEVER` for a turn that does not occur."""
        homes = np.searchsorted(self._counts[:, source], turns, side="right") - 1
        found = np.full_like(turns, NEVER)
        for nth in np.unique(homes).tolist():
            mine, stage = homes == nth, self.stages[nth]
            if stage.turns[source]:
                periods, rest = np.divmod(turns[mine] - self._counts[nth][source], stage.turns[source])
                found[mine] = stage.start + periods * len(stage.pattern) + stage.offsets[source][rest]
        return found

    def count(self, rows: int) -> list[int]:
        """Return how many of the first rows belong to each source."""
        nth = int(np.searchsorted(self._starts, rows, side="right")) - 1
        stage = self.stages[nth]
        total: list[int] = (self._counts[nth] + stage.count(rows - stage.start)).tolist()
        return total


def count_turns(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """Return how many turns each source has in one period: `[1/2, 1/3, 1/6]` -> `(3, 2, 1)`."""
    fractions = [Fraction(weight) for weight in weights]
    exact = [weight / sum(fractions) for weight in fractions]
    # A float such as 0.1 is not one tenth: take the simplest fraction within its precision.
    simple = [value.limit_denominator(LONGEST_PERIOD) for value in exact]
    common = lcm(*(value.denominator for value in simple))
    close = all(abs(a - b) <= Fraction(1, 1 << 40) for a, b in zip(simple, exact, strict=True))
    if close and sum(simple) == 1 and common <= LONGEST_PERIOD:
        return tuple(int(value * common) for value in simple)
    # Round to whole numbers of the same sum, at least 1 where a weight is above 0.
    shares = [value * NEAREST_PERIOD for value in exact]
    turns = [max(share > 0, int(share)) for share in shares]
    by_rest = sorted(
        (nth for nth, share in enumerate(shares) if share), key=lambda nth: turns[nth] - shares[nth]
    )
    for step in range(abs(NEAREST_PERIOD - sum(turns))):
        up = sum(turns) < NEAREST_PERIOD
        turns[by_rest[step % len(by_rest)] if up else turns.index(max(turns))] += 1 if up else -1
    return tuple(turns)
