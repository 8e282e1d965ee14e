"""A segment of a run, and the rows that a trace returns.

The order of an epoch is a function and ranks take turns, so a step is arithmetic: which positions of which
epoch a rank gets, and when a position comes up. Without `drop_last` ranks may differ by one batch at the end
of an epoch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.reader.feed import count_batches, find_batch, find_epoch_end
from tokenmill.datasets.reader.mixture import Mixture
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.rows import Rows
    from tokenmill.datasets.reader.shuffle import Order

    Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens `start..start + length` of a document, at `place` in a row."""

    document: int
    place: int
    length: int
    start: int


@dataclass(frozen=True, slots=True)
class TracedRow:
    """One row of one step: its rank, its dataset and row, and the documents in it.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> feed = dataset.rows(context_length=8).batches(2)
    >>> [(row.row, [span.document for span in row.spans]) for row in feed.trace(0)]
    [(0, [0, 1]), (1, [1])]
    """

    step: int
    rank: int
    place: int
    """The index in the batch."""
    epoch: int
    position: int
    """The index in the epoch."""
    source: int
    """The index of the source in a mixture; 0 for one dataset."""
    row: int
    """The index in the dataset."""
    spans: tuple[Span, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a plain object."""
        found = asdict(self)
        return found | {"documents": list(found.pop("spans"))}


def list_sources(source: Rows | Mixture) -> list[Rows]:
    """Return the datasets whose rows a run reads."""
    return source.sources if isinstance(source, Mixture) else [source]


@dataclass(frozen=True)
class RunSegment:
    """A part of a run with one world size and one batch size, from one start to the next."""

    source: Rows | Mixture
    order: Order
    position: int
    world_size: int
    batch_size: int
    drop_last: bool = False
    first_step: int = 0

    def _start(self, epoch: int) -> int:
        return self.position if epoch == self.order.epoch else 0

    def _end(self, epoch: int) -> int:
        """Return where an epoch ends: after its last row, or after the last full batch of every rank."""
        if not self.drop_last:
            return len(self.order)
        return find_epoch_end(self._start(epoch), len(self.order), self.batch_size * self.world_size)

    def _count(self, rank: int, epoch: int, position: int | None = None) -> int:
        """Return how many batches a rank gets in an epoch, or up to a position of it."""
        end = self._end(epoch) if position is None else min(position, self._end(epoch))
        return count_batches(self._start(epoch), end, self.batch_size, rank, self.world_size)

    def count_before(self, rank: int, epoch: int, position: int | None = None) -> int:
        """Return how many batches a rank got before an epoch, and in it up to a position."""
        inside = 0 if position is None else self._count(rank, epoch, position)
        if epoch == self.order.epoch:
            return inside
        whole = self._count(rank, self.order.epoch)
        return whole + (epoch - self.order.epoch - 1) * self._count(rank, epoch) + inside

    def locate(self, step: int, rank: int) -> tuple[int, Int64s]:
        """Return the epoch and the positions of a rank's batch; none if the rank never has such a step."""
        nth, epoch = step - self.first_step, self.order.epoch
        first = self._count(rank, epoch)
        if nth >= first:
            each = self._count(rank, epoch + 1)
            if not each:
                return epoch, np.empty(0, np.int64)
            epoch, nth = epoch + 1 + (nth - first) // each, (nth - first) % each
        base = self._start(epoch) + nth * self.world_size * self.batch_size
        return epoch, find_batch(base, self._end(epoch), self.batch_size, rank, self.world_size)

    def find(self, epoch: int, positions: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return (step, rank, index in the batch) of positions; a step of -1 outside the segment."""
        start = self._start(epoch)
        ranks = (positions - start) % self.world_size
        batches, places = np.divmod((positions - start) // self.world_size, self.batch_size)
        before = np.array([self.count_before(rank, epoch) for rank in range(self.world_size)])
        steps = self.first_step + before[ranks] + batches
        steps[(positions < start) | (positions >= self._end(epoch))] = -1
        return steps, ranks, places

    def find_rows(self, epoch: int, positions: Int64s) -> tuple[Int64s, Int64s]:
        """Return the source of each position of an epoch, and the number of its row there."""
        rows = self.order.in_epoch(epoch).rows(positions)
        return self.source.locate(rows, epoch) if isinstance(self.source, Mixture) else (rows * 0, rows)

    def find_positions(self, epoch: int, source: int, rows: Int64s) -> Int64s:
        """Return the positions in an epoch at which rows of a source come up."""
        found = self.source.find(source, rows, epoch) if isinstance(self.source, Mixture) else rows
        return self.order.in_epoch(epoch).invert(found)

    def list_epochs_before(self, step: int) -> Iterator[int]:
        """Yield the epochs in which some rank gets a batch before a step."""
        epoch = self.order.epoch
        ever = [rank for rank in range(self.world_size) if self._count(rank, epoch + 1)]
        slowest = ever[-1] if ever else 0
        while self.first_step + self.count_before(slowest, epoch) < step:
            yield epoch
            if not ever:
                return
            epoch += 1

    def find_step(self, epoch: int, position: int) -> int:
        """Return the first step after a position of the run; raise `DatasetError` if no step ends there."""
        stride = self.world_size * self.batch_size
        start, end = self._start(epoch), self._end(epoch)
        if epoch < self.order.epoch or position < start:
            raise DatasetError(
                f"the state at row {position:,} of epoch {epoch} is before row {self.position:,} of epoch "
                f"{self.order.epoch}, where the run resumed: give states in the order in which they were "
                "loaded"
            )
        if position not in {end, len(self.order)} and (position - start) % stride:
            raise DatasetError(
                f"the state is at row {position:,} of epoch {epoch}, and no step of {self.world_size} ranks "
                f"with batches of {self.batch_size} that began at row {start:,} ends there: the world size "
                "or the batch size was different. Give one for each segment of the run, and the state "
                "between each two; or count steps from the state, with --from-state"
            )
        return self.first_step + self.count_before(0, epoch, position)
