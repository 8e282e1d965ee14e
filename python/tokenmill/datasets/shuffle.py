"""The order of rows: a seeded permutation that is computed, not stored, and the order of an epoch.

A keyed Feistel network permutes the smallest power of two that holds the rows. A result outside is permuted
again until it falls inside ("cycle walking"), fewer than two rounds on average: the mapping stays one to one.
A table for a billion rows would take 8 GB in every rank; this takes a few keys.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
# Below six rounds the halves of a small domain are visibly related; eight cost 2 us a row in Python.
_ROUNDS = 8
# Below so many positions, Python integers are faster than NumPy's forty calls.
_FEW = 16


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

    A dataset may grow while a run is in the middle of an epoch. The old rows come first, in the order they
    had; the new ones follow, shuffled among themselves; the next epoch shuffles all together. So an order
    consists of segments, nearly always of one. `ends` are the row counts up to the end of each. A seed of
    None keeps the order of the files.
    """

    def __init__(self, ends: list[int], *, seed: int | None, epoch: int = 0) -> None:
        self.ends = list(ends)
        self.seed = seed
        self.epoch = epoch

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
        return self._apply(positions, Permutation.__call__)

    def invert(self, rows: Int64s) -> Int64s:
        """Return the positions of these rows in the epoch."""
        return self._apply(rows, Permutation.invert)

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
        """Return this epoch as it is, or another one with all rows in one segment."""
        return self if epoch == self.epoch else Order([self.ends[-1]], seed=self.seed, epoch=epoch)

    def extend(self, rows: int) -> Order:
        """Return the same epoch with `rows` rows in all: the new ones come after the old ones."""
        return self if rows == self.ends[-1] else Order([*self.ends, rows], seed=self.seed, epoch=self.epoch)
