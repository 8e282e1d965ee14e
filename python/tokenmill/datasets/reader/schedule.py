"""Whose turn it is at every row of a mixture, as a function: any row can be asked for, and none is walked to.

Under constant weights turns repeat after some periods, once those of the stage before have been made up for;
such a stretch is kept once, however long it is. Where weights change, turns are dealt out anew, in blocks of
which only the counts at their beginning are kept. `_core.deal_turns` has the rule and its proof.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.datasets.reader.stages import count_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.stages import Stage

    Int64s = NDArray[np.int64]
    Shares = list[tuple[int, int, int]]

# Rows that are dealt out again at once, where they do not repeat.
BLOCK = 1 << 16
# Blocks that are held because they were just asked for.
HELD = 16
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows from `start` on, where each source has had `counts` turns: a pattern of `length` rows, repeated.

    `pattern` is None where the rows are dealt out when they are asked for.
    """

    start: int
    length: int
    counts: tuple[int, ...]
    turns: tuple[int, ...]
    pattern: NDArray[np.uint16] | None = None


class Dealt:
    """The pattern of a piece, which turn of its source each place is, and where each source has its turns."""

    def __init__(self, pattern: NDArray[np.uint16], sources: int) -> None:
        self.pattern = pattern
        self.places = [np.flatnonzero(pattern == source) for source in range(sources)]
        self.before = np.empty(len(pattern), dtype=np.int64)
        for places in self.places:
            self.before[places] = np.arange(len(places))


class Schedule:
    """`Schedule([Stage(0, (2, 1))]).locate(np.arange(3))` -> sources `[0, 0, 1]`, turns `[0, 1, 0]`."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)
        self._parts = count_parts(self.stages)
        self._sources = len(self.stages[0].turns)
        self._dues, self._periods = _make_dues(self.stages, self._parts)
        self._pieces = _Builder(self._parts, self._dues, self._periods).build()
        self._starts = np.array([piece.start for piece in self._pieces], dtype=np.int64)
        self._counts = np.array([piece.counts for piece in self._pieces], dtype=np.int64)
        self._held: dict[int, Dealt] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_held": {}}

    def _deal_piece(self, index: int) -> Dealt:
        found = self._held.get(index)
        if found is None:
            piece = self._pieces[index]
            pattern = piece.pattern
            if pattern is None:
                pattern, _ = _core.deal_turns(
                    self._parts, self._dues, piece.start, list(piece.counts), piece.length
                )
            found = Dealt(pattern, self._sources)
            while len(self._held) >= HELD:
                del self._held[next(iter(self._held))]
            self._held[index] = found
        return found

    def locate(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """The source of each row, and which of its turns it is."""
        homes = np.searchsorted(self._starts, rows, side="right") - 1
        sources, turns = np.empty_like(rows), np.empty_like(rows)
        for index in np.unique(homes).tolist():
            mine = homes == index
            piece, dealt = self._pieces[index], self._deal_piece(index)
            periods, places = np.divmod(rows[mine] - piece.start, piece.length)
            chosen = dealt.pattern[places].astype(np.int64)
            each = np.array(piece.turns, dtype=np.int64)
            sources[mine] = chosen
            turns[mine] = self._counts[index][chosen] + periods * each[chosen] + dealt.before[places]
        return sources, turns

    def find(self, source: int, turns: Int64s) -> Int64s:
        """The row of each turn of a source; `NEVER` for one that does not come."""
        homes = np.searchsorted(self._counts[:, source], turns, side="right") - 1
        found = np.full_like(turns, NEVER)
        for index in np.unique(homes).tolist():
            mine = homes == index
            piece, each = self._pieces[index], self._pieces[index].turns[source]
            if each:
                periods, nth = np.divmod(turns[mine] - piece.counts[source], each)
                places = self._deal_piece(index).places[source][nth]
                found[mine] = piece.start + periods * piece.length + places
        return found

    def count(self, rows: int) -> list[int]:
        """How many turns each source has in the first so many rows."""
        index = bisect_right(self._starts, rows) - 1
        piece, dealt = self._pieces[index], self._deal_piece(index)
        periods, place = divmod(rows - piece.start, piece.length)
        inside = np.bincount(dealt.pattern[:place], minlength=self._sources)
        parts = zip(piece.counts, piece.turns, inside.tolist(), strict=True)
        return [before + periods * each + some for before, each, some in parts]


def _make_dues(stages: Sequence[Stage], parts: int) -> tuple[list[tuple[int, Shares]], list[int]]:
    """What is due from each row on at which that changes; and the period there, 0 while weights change."""
    dues: list[tuple[int, Shares]] = []
    periods: list[int] = []
    due = [0] * len(stages[0].turns)
    following = [stage.start for stage in stages[1:]]
    for nth, stage in enumerate(stages):
        rates = [turns * (parts // stage.period) for turns in stage.turns]
        begins = stage.start
        if stage.change:
            before = stages[nth - 1]
            olds = [turns * (parts // before.period) for turns in before.turns]
            shares = [
                (base, old, (rate - old) // (2 * stage.change))
                for base, old, rate in zip(due, olds, rates, strict=True)
            ]
            dues.append((begins, shares))
            periods.append(0)
            due = [
                base + (old + rate) * stage.change // 2
                for base, old, rate in zip(due, olds, rates, strict=True)
            ]
            begins += stage.change
        if nth == len(following) or begins < following[nth]:
            dues.append((begins, [(base, rate, 0) for base, rate in zip(due, rates, strict=True)]))
            periods.append(stage.period)
            if nth < len(following):
                rows = following[nth] - begins
                due = [base + rate * rows for base, rate in zip(due, rates, strict=True)]
    return dues, periods


class _Builder:
    """Deals out every stretch once, and finds out from where on its turns repeat."""

    def __init__(self, parts: int, dues: list[tuple[int, Shares]], periods: list[int]) -> None:
        self.parts = parts
        self.dues = dues
        self.periods = periods
        self.row = 0
        self.counts = [0] * len(dues[0][1])
        self.pieces: list[Piece] = []

    def build(self) -> list[Piece]:
        """All pieces, the last of which goes on for ever."""
        starts = [start for start, _ in self.dues]
        ends = [end for _, end in pairwise([*starts, NEVER])]
        for (_, shares), end, period in zip(self.dues, ends, self.periods, strict=True):
            if period:
                self._repeat(shares, end, period)
            self._fill(end)
        return self.pieces

    def _deal(self, length: int) -> NDArray[np.uint16]:
        pattern, counts = _core.deal_turns(self.parts, self.dues, self.row, self.counts, length)
        self.row, self.counts = self.row + length, counts
        return pattern

    def _fill(self, end: int) -> None:
        """Blocks up to `end`, of which only the counts are kept."""
        while self.row < end != NEVER:
            start, before, length = self.row, tuple(self.counts), min(BLOCK, end - self.row)
            self._deal(length)
            turns = tuple(now - then for now, then in zip(self.counts, before, strict=True))
            self.pieces.append(Piece(start, length, before, turns))

    def _repeat(self, shares: Shares, end: int, period: int) -> None:
        """Deal out periods until one begins like an earlier one; from there on they repeat.

        Near the end of the stage a turn may be due only in the next one, so those rows are dealt out apart.
        """
        first = self.row
        rates = [rate for _, rate, _ in shares if rate]
        ahead = max(-(-self.parts // rate) for rate in rates) + 2
        last = NEVER if end == NEVER else end - ahead
        seen: dict[tuple[int, ...], int] = {}
        patterns: list[NDArray[np.uint16]] = []
        begun: list[tuple[int, tuple[int, ...]]] = []
        while (key := self._measure_backlog(shares, first)) not in seen:
            if self.row + period > last:
                self._keep(begun, patterns, len(begun))
                return
            seen[key] = len(begun)
            begun.append((self.row, tuple(self.counts)))
            patterns.append(self._deal(period))
        nth = seen[key]
        self._keep(begun, patterns, nth)
        start, counts = begun[nth]
        pattern = np.concatenate(patterns[nth:])
        turns = tuple(now - then for now, then in zip(self.counts, counts, strict=True))
        self.pieces.append(Piece(start, len(pattern), counts, turns, pattern))
        if last != NEVER:
            times = (last - start) // len(pattern)
            self.row = start + times * len(pattern)
            self.counts = [before + times * each for before, each in zip(counts, turns, strict=True)]

    def _measure_backlog(self, shares: Shares, first: int) -> tuple[int, ...]:
        """How far each source is behind what it is due, which decides all that follows."""
        rows = self.row - first
        due = (base + rate * rows for base, rate, _ in shares)
        return tuple(owed - count * self.parts for owed, count in zip(due, self.counts, strict=True))

    def _keep(
        self, begun: list[tuple[int, tuple[int, ...]]], patterns: list[NDArray[np.uint16]], number: int
    ) -> None:
        """The first so many periods as pieces of their own."""
        for (start, counts), pattern in zip(begun[:number], patterns, strict=False):
            turns = np.bincount(pattern, minlength=len(counts)).tolist()
            self.pieces.append(Piece(start, len(pattern), counts, tuple(turns), pattern))
