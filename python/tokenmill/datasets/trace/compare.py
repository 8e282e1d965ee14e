"""From which step on two runs differ, where only their data differs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.reader.order import Order

if TYPE_CHECKING:
    from tokenmill.datasets.reader.feed import RowSource
    from tokenmill.datasets.reader.rows import Rows
    from tokenmill.datasets.trace.history import History
    from tokenmill.datasets.trace.legs import Leg


def find_difference(history: History, other: RowSource, epochs: int) -> int | None:
    """The first step that reads other tokens where the run goes on with `other`; None if none does.

    The run is where its last state was saved, or at its beginning; `other` is read from the same place on.
    """
    leg = history.legs[-1]
    epoch, total = leg.order.epoch, len(other)
    order = Order([total], seed=leg.order.seed, epoch=epoch)
    beside = replace(leg, source=other, order=order, position=min(leg.position, total))
    for step in range(_find_first_step(leg, beside), history.count_steps(epochs)):
        for rank in range(leg.world_size):
            if _read(leg, step, rank) != _read(beside, step, rank):
                return step
    return None


def _find_first_step(leg: Leg, beside: Leg) -> int:
    """A step before which nothing differs: rows in the order of the files are equal up to one of them."""
    mine, other = leg.source, beside.source
    if leg.order.seed is not None or mine.keeps_order or other.keeps_order:
        return leg.first_step
    row = count_equal_rows(mine.sources[0], other.sources[0])
    row = min(row, len(leg.order) - 1)
    if row <= leg.position:
        return leg.first_step
    steps, _, _ = leg.find(leg.order.epoch, np.array([row], dtype=np.int64))
    return max(leg.first_step, int(steps[0]))


def count_equal_rows(mine: Rows, other: Rows) -> int:
    """How many rows are equal from the first on, by the hashes of shards and the tokens of one."""
    equal = 0
    for index, (a, b) in enumerate(
        zip(mine.dataset.shards.entries, other.dataset.shards.entries, strict=False)
    ):
        if a.file("tokens").sha256 == b.file("tokens").sha256:
            equal += a.tokens
            continue
        ours, theirs = mine.dataset.shards.tokens(index), other.dataset.shards.tokens(index)
        size = min(len(ours), len(theirs))
        differ = np.flatnonzero(ours[:size] != theirs[:size])
        equal += int(differ[0]) if len(differ) else size
        break
    stride = mine.context_length - mine.overlap
    return max(0, (equal - mine.overlap) // stride)


def _read(leg: Leg, step: int, rank: int) -> list[bytes]:
    found = leg.locate(step, rank)
    if found is None or not len(leg.order):
        return []
    epoch, positions = found
    sources, rows = leg.source.locate(leg.order.in_epoch(epoch).rows(positions), epoch)
    pairs = zip(sources.tolist(), rows.tolist(), strict=True)
    return [leg.source.sources[source][row].tobytes() for source, row in pairs]
