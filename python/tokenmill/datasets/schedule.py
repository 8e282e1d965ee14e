"""The source of every row of a mixture, as a function of the row.

Weights become whole numbers of turns in a period. Within a stage the turns of a period repeat, so any row is
found in O(1). After any number of rows of a stage each source has had its share of them to within one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

# Weights with a common denominator up to this, so six decimals, are kept exactly.
LONGEST_PERIOD = 1_000_000
# Other weights are rounded to a multiple of one part in so many.
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
        """Return the source of each row, and the number of its turn."""
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
        """Return the row of each turn of a source; `NEVER` for one that does not come."""
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
        total: list[int] = (
            self._counts[nth] + self.stages[nth].count(rows - self.stages[nth].start)
        ).tolist()
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
    return tuple(_round_turns([value * NEAREST_PERIOD for value in exact]))


def _round_turns(shares: Sequence[Fraction]) -> list[int]:
    """Round shares to whole numbers with the same sum, at least 1 where a share is above 0."""
    turns = [max(share > 0, int(share)) for share in shares]
    by_rest = sorted(
        (nth for nth, share in enumerate(shares) if share), key=lambda nth: turns[nth] - shares[nth]
    )
    for step in range(abs(NEAREST_PERIOD - sum(turns))):
        up = sum(turns) < NEAREST_PERIOD
        turns[by_rest[step % len(by_rest)] if up else turns.index(max(turns))] += 1 if up else -1
    return turns
