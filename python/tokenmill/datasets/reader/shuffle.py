"""A seeded shuffle that is computed, never stored: position -> row in a few operations, at any size.

A keyed Feistel network permutes the smallest power of two that holds the rows; a result outside is
permuted again until it falls inside ("cycle walking"), which keeps the mapping one to one. At least
half of the power of two is inside, so that takes fewer than two rounds on average. A table for a
billion rows would take 8 GB in every rank; this takes a few keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
# Below six rounds the halves of a small domain are visibly related; eight cost 2 us a row in Python.
_ROUNDS = 8
# Below so many positions plain integers are quicker than NumPy's forty calls.
_FEW = 16


def mix(value: int) -> int:
    """SplitMix64's finaliser: every bit of the result depends on every bit of `value`."""
    value = (value ^ (value >> 30)) * _FIRST & _WORD
    value = (value ^ (value >> 27)) * _SECOND & _WORD
    return value ^ (value >> 31)


def derive(seed: int, *parts: int) -> int:
    """One key out of a seed and some numbers: `derive(1, epoch)` differs for every epoch."""
    key = mix(seed & _WORD ^ _GOLDEN)
    for part in parts:
        key = mix((key + _GOLDEN + (part & _WORD)) & _WORD)
    return key


class Permutation:
    """A one-to-one mapping of `range(length)`: `Permutation(10, seed=1)[3]` -> some row in 0..9."""

    def __init__(self, length: int, seed: int) -> None:
        self.length = length
        bits = max((length - 1).bit_length(), 2)
        self._low_bits = bits // 2
        self._low_mask = (1 << self._low_bits) - 1
        self._high_mask = (1 << (bits - self._low_bits)) - 1
        self._keys = [derive(seed, turn) for turn in range(_ROUNDS)]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def __getitem__(self, position: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
        """The row at a position, or the rows at an array of positions."""
        if isinstance(position, np.ndarray):
            return self._permute_many(position)
        if not 0 <= position < self.length:
            raise IndexError(f"position {position} is outside 0..{self.length - 1}")
        value = self._step(position)
        while value >= self.length:
            value = self._step(value)
        return value

    def invert(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position of each row: `p.invert(p[positions])` is `positions`."""
        self._check(rows)
        return self._walk(rows, self._step_back_many)

    def _step(self, value: int) -> int:
        high, low = value >> self._low_bits, value & self._low_mask
        for turn in range(0, _ROUNDS, 2):
            high ^= mix((low + self._keys[turn]) & _WORD) & self._high_mask
            low ^= mix((high + self._keys[turn + 1]) & _WORD) & self._low_mask
        return high << self._low_bits | low

    def _permute_many(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        self._check(positions)
        if len(positions) < _FEW:
            return np.array([self[position] for position in positions.tolist()], dtype=np.int64)
        return self._walk(positions, self._step_many)

    def _check(self, numbers: NDArray[np.int64]) -> None:
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.length):
            raise IndexError(f"a position or row is outside 0..{self.length - 1}")

    def _walk(self, numbers: NDArray[np.int64], once: Callable[[Words], Words]) -> NDArray[np.int64]:
        values = once(numbers.astype(np.uint64))
        outside = np.flatnonzero(values >= self.length)
        while len(outside):
            values[outside] = once(values[outside])
            outside = outside[values[outside] >= self.length]
        return values.astype(np.int64)

    def _step_many(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        high, low = values >> np.uint64(self._low_bits), values & np.uint64(self._low_mask)
        for turn in range(0, _ROUNDS, 2):
            high ^= _mix_many(low + np.uint64(self._keys[turn])) & np.uint64(self._high_mask)
            low ^= _mix_many(high + np.uint64(self._keys[turn + 1])) & np.uint64(self._low_mask)
        return high << np.uint64(self._low_bits) | low

    def _step_back_many(self, values: Words) -> Words:
        high, low = values >> np.uint64(self._low_bits), values & np.uint64(self._low_mask)
        for turn in range(_ROUNDS - 2, -1, -2):
            low ^= _mix_many(high + np.uint64(self._keys[turn + 1])) & np.uint64(self._low_mask)
            high ^= _mix_many(low + np.uint64(self._keys[turn])) & np.uint64(self._high_mask)
        return high << np.uint64(self._low_bits) | low


def _mix_many(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_FIRST)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_SECOND)
    return values ^ (values >> np.uint64(31))
