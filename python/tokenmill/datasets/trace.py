"""Compute the rows and documents of each step of a run, and the steps of a document, without a log.

The order of an epoch is a function, and ranks take turns. The positions of a rank's step, and the step of a
position, are therefore computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tokenmill.datasets.mixture import Mixture
from tokenmill.datasets.order import NEVER
from tokenmill.datasets.rows import Rows
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from tokenmill.datasets.feed import Feed

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


def list_sources(source: Rows | Mixture) -> list[Rows]:
    """Return the datasets whose rows a run reads."""
    return source.sources if isinstance(source, Mixture) else [source]


class History:
    """The rows that every rank of a run reads at every step.

    Steps count from 0 at the start of the feed, or at the state that it loaded last. For a run that resumed
    with another world size or batch size, make a feed of each part and load the state between the parts.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> feed = dataset.rows(context_length=4).batches(1, shuffle=True, seed=7, world_size=2)
    >>> [(row.rank, row.row) for row in History(feed).trace(1)]
    [(0, 2), (1, 3)]
    >>> [(row.step, row.rank, row.row) for row in History(feed).find([0])]
    [(0, 0, 1), (0, 1, 0)]

    Args:
        feed: The feed of any rank of the run.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._order, self._position = feed.start
        self._sources = list_sources(feed.source)

    def _count_before(self, rank: int, epoch: int) -> int:
        """Return the number of batches of a rank before an epoch."""
        later = epoch - self._order.epoch
        first, each = (len(self.feed.find_steps(rank, start)) for start in (self._position, 0))
        return first + (later - 1) * each if later else 0

    def trace(self, step: int, *, rank: int | None = None) -> list[TracedRow]:
        """Return the rows of a step, of every rank or of one. A rank may have none.

        Raises:
            ConfigError: The step is negative, or there is no such rank.
        """
        feed, found = self.feed, list[TracedRow]()
        if step < 0 or rank not in (None, *range(feed.world_size)):
            raise ConfigError(
                f"step={step}, rank={rank}: steps count from 0, and rank must be from 0 to world_size - 1"
            )
        for each in range(feed.world_size) if rank is None else [rank]:
            epoch, nth = self._order.epoch, step
            first, whole = (len(feed.find_steps(each, start)) for start in (self._position, 0))
            if step >= first and whole:
                later, nth = divmod(step - first, whole)
                epoch += 1 + later
            start = self._position if epoch == self._order.epoch else 0
            positions = feed.find_batch(start + nth * feed.stride, each)
            steps, ranks = np.full_like(positions, step), np.full_like(positions, each)
            found += self._describe(epoch, positions, steps, ranks, np.arange(len(positions)))
        return found

    def find(
        self, documents: Collection[int], *, source: int = 0, until: int | None = None
    ) -> list[TracedRow]:
        """Return every row of the run that holds tokens of these documents, with their spans only.

        Args:
            documents: Numbers of documents in their dataset.
            source: The index of the dataset in a mixture, as `TracedRow.source`.
            until: The number of steps of the run; by default up to the end of the epoch.

        Returns:
            The rows, ordered by step, rank and index in the batch.
        """
        feed, epoch = self.feed, self._order.epoch
        if until is None and len(self._order) == NEVER:
            raise ConfigError("a stream has no end: give until, the number of steps that the run has done")
        wanted = np.unique(np.fromiter(documents, dtype=np.int64))
        rows = self._sources[source].find_documents(wanted)
        bound = NEVER if until is None else self._position + until * feed.stride
        # The last of the ranks that read rows in every epoch, and so the one with the fewest batches.
        slowest = min(feed.world_size, feed.find_end(0)) - 1
        found: list[TracedRow] = []
        while epoch == self._order.epoch or (
            until is not None and slowest >= 0 and self._count_before(slowest, epoch) < until
        ):
            mixture = feed.source if isinstance(feed.source, Mixture) else None
            numbers = rows if mixture is None else mixture.find(source, rows, epoch)
            positions = self._order.in_epoch(epoch).invert(numbers, bound)
            start = self._position if epoch == self._order.epoch else 0
            positions = positions[(positions >= start) & (positions < feed.find_end(start))]
            turns, ranks = np.divmod(positions - start, feed.world_size)
            batches, places = np.divmod(turns, feed.batch_size)
            before = np.array([self._count_before(rank, epoch) for rank in range(feed.world_size)])
            where = [positions, before[ranks] + batches, ranks, places]
            seen = where[1] < (NEVER if until is None else until)
            found += self._describe(epoch, *(each[seen] for each in where), only=wanted.tolist())
            epoch += 1
        return sorted(found, key=lambda row: (row.step, row.rank, row.place))

    def _describe(
        self, epoch: int, positions: Int64s, *where: Int64s, only: Collection[int] | None = None
    ) -> Iterator[TracedRow]:
        """Yield the rows at some positions of an epoch, with all spans or with those of some documents."""
        rows = self._order.in_epoch(epoch).rows(positions)
        sources = np.zeros_like(rows)
        if isinstance(self.feed.source, Mixture):
            sources, rows = self.feed.source.locate(rows, epoch)
        columns = (column.tolist() for column in (*where, positions, sources, rows))
        for step, rank, place, position, source, row in zip(*columns, strict=True):
            spans = (Span(*span) for span in self._sources[source].spans(row).tolist())
            parts = tuple(span for span in spans if only is None or span.document in only)
            yield TracedRow(step, rank, place, epoch, position, source, row, parts)
