"""A leg of a run: from one start to the next, with one world size and one batch size.

The order of an epoch is a function and ranks take turns, so a step is arithmetic: which positions of which
epoch a rank gets, and the other way round, when a position comes up and who gets it. A rank counts its own
batches; without `drop_last` the ranks may differ by one at the end of an epoch, as `Feed` deals them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.reader.turns import Turns, find_epoch_end
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.feed import RowSource
    from tokenmill.datasets.reader.order import Order

    Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Leg:
    """Where it began (`order` has the epoch), who read, and what had been done before."""

    source: RowSource
    order: Order
    position: int
    world_size: int
    batch_size: int
    drop_last: bool = False
    first_step: int = 0

    def _start(self, epoch: int) -> int:
        return self.position if epoch == self.order.epoch else 0

    def _end(self, epoch: int) -> int:
        """Where an epoch ends: its last row, or the last that fills a batch of every rank."""
        if not self.drop_last:
            return len(self.order)
        return find_epoch_end(self._start(epoch), len(self.order), self.batch_size, self.world_size)

    def _count(self, rank: int, epoch: int, end: int | None = None) -> int:
        """How many batches a rank gets in an epoch, or up to a position of it."""
        stop = self._end(epoch) if end is None else min(end, self._end(epoch))
        return Turns(rank, self.world_size).count(self._start(epoch), stop, self.batch_size)

    def count_before(self, rank: int, epoch: int, position: int | None = None) -> int:
        """How many batches a rank got before an epoch, and in it up to a position."""
        inside = 0 if position is None else self._count(rank, epoch, position)
        if epoch == self.order.epoch:
            return inside
        whole = self._count(rank, self.order.epoch)
        return whole + (epoch - self.order.epoch - 1) * self._count(rank, epoch) + inside

    def locate(self, step: int, rank: int) -> tuple[int, Int64s] | None:
        """The epoch and the positions of a rank's batch; None if there is no such step, ever."""
        nth, epoch = step - self.first_step, self.order.epoch
        first = self._count(rank, epoch)
        if nth >= first:
            each = self._count(rank, epoch + 1)
            if not each:
                return None
            epoch, nth = epoch + 1 + (nth - first) // each, (nth - first) % each
        base = self._start(epoch) + nth * self.world_size * self.batch_size
        positions = base + rank + self.world_size * np.arange(self.batch_size, dtype=np.int64)
        return epoch, positions[positions < self._end(epoch)]

    def find(self, epoch: int, positions: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """(step, rank, place in the batch) of positions; a step of -1 where nobody gets one in this leg."""
        start = self._start(epoch)
        ranks = (positions - start) % self.world_size
        batches, places = np.divmod((positions - start) // self.world_size, self.batch_size)
        before = np.array([self.count_before(rank, epoch) for rank in range(self.world_size)])
        steps = self.first_step + before[ranks] + batches
        steps[(positions < start) | (positions >= self._end(epoch))] = -1
        return steps, ranks, places

    def list_epochs_before(self, step: int) -> Iterator[int]:
        """The epochs in which some rank gets a batch before a step; the slowest of them decides."""
        epoch = self.order.epoch
        ever = [rank for rank in range(self.world_size) if self._count(rank, epoch + 1)]
        slowest = ever[-1] if ever else 0
        while self.first_step + self.count_before(slowest, epoch) < step:
            yield epoch
            if not ever:
                return
            epoch += 1

    def find_step(self, epoch: int, position: int) -> int:
        """The first step after a place of the run; raises `DatasetError` if no step ends there."""
        stride = self.world_size * self.batch_size
        start, end = self._start(epoch), self._end(epoch)
        if epoch < self.order.epoch or position < start:
            raise DatasetError(
                f"the state at row {position:,} of epoch {epoch} is before row {self.position:,} of epoch "
                f"{self.order.epoch}, where the run went on: give states in the order in which they were "
                "loaded"
            )
        if position not in {end, len(self.order)} and (position - start) % stride:
            raise DatasetError(
                f"the state is at row {position:,} of epoch {epoch}, and no step of {self.world_size} ranks "
                f"with batches of {self.batch_size} that began at row {start:,} ends there: the world size "
                "or the batch size was different. Give one for each leg of the run, and the state "
                "between each two; or count steps from the state, with --from-state"
            )
        return self.first_step + self.count_before(0, epoch, position)
