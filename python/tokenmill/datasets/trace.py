"""Compute the rows and documents of each step of a run, without a log.

The order of an epoch is a function, and ranks take turns. The positions of a rank's step, and the step of a
position, are therefore computed. A history consists of the start of a run and the states from which it
resumed. A state is a position of a run for any world size. The rows between two states belong to the ranks of
that segment. A dataset that has grown since is read as it was then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.datasets.feed import (
    check_rank,
    count_batches,
    find_batch,
    find_epoch_end,
    make_order,
    restore,
)
from tokenmill.datasets.local_order import Local, LocalOrder
from tokenmill.datasets.mixture import Mixture
from tokenmill.datasets.order import NEVER, Order
from tokenmill.datasets.rows import Rows
from tokenmill.errors import ConfigError, DatasetError

Int64s = NDArray[np.int64]
Sizes = int | Sequence[int]


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
    order: Order | LocalOrder
    position: int
    world_size: int
    batch_size: int
    drop_last: bool = False
    first_step: int = 0

    def _start(self, epoch: int) -> int:
        return self.position if epoch == self.order.epoch else 0

    def _end(self, epoch: int) -> int:
        """Return the end of an epoch: after its last row, or after the last full batch of every rank."""
        step = self.batch_size * self.world_size if self.drop_last else 1
        return find_epoch_end(self._start(epoch), len(self.order), step)

    def _count(self, rank: int, epoch: int, position: int | None = None) -> int:
        """Return the number of batches of a rank in an epoch, or up to a position of it."""
        end = self._end(epoch) if position is None else min(position, self._end(epoch))
        return count_batches(self._start(epoch), end, self.batch_size, rank, self.world_size)

    def count_before(self, rank: int, epoch: int, position: int | None = None) -> int:
        """Return the number of batches of a rank before an epoch, plus those in it up to a position."""
        inside = 0 if position is None else self._count(rank, epoch, position)
        if epoch == self.order.epoch:
            return inside
        whole = self._count(rank, self.order.epoch)
        return whole + (epoch - self.order.epoch - 1) * self._count(rank, epoch) + inside

    def locate(self, step: int, rank: int) -> tuple[int, Int64s]:
        """Return the epoch and the positions of a rank's batch, empty if the rank has no such step."""
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
        """Return (step, rank, index in the batch) of positions. The step is -1 outside the segment."""
        start = self._start(epoch)
        ranks = (positions - start) % self.world_size
        batches, places = np.divmod((positions - start) // self.world_size, self.batch_size)
        before = np.array([self.count_before(rank, epoch) for rank in range(self.world_size)])
        steps = self.first_step + before[ranks] + batches
        steps[(positions < start) | (positions >= self._end(epoch))] = -1
        return steps, ranks, places

    def find_rows(self, epoch: int, positions: Int64s) -> tuple[Int64s, Int64s]:
        """Return the source and the row number of each position of an epoch."""
        rows = self.order.in_epoch(epoch).rows(positions)
        return self.source.locate(rows, epoch) if isinstance(self.source, Mixture) else (rows * 0, rows)

    def list_epochs_before(self, step: int) -> range:
        """Return the epochs in which some rank gets a batch before a step."""
        epoch = self.order.epoch
        ranks = [rank for rank in range(self.world_size) if self._count(rank, epoch + 1)]
        # The last of these ranks has the fewest batches, so it is in the latest epoch.
        last = self.locate(step - 1, ranks[-1] if ranks else 0)[0] if step > self.first_step else epoch - 1
        return range(epoch, last + 1)

    def find_step(self, epoch: int, position: int) -> int:
        """Return the first step after a position of the run. Raise `DatasetError` if no step ends there."""
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


class History:
    """The rows that every rank of a run read at every step.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> history = History(dataset.rows(context_length=4), 1, seed=7, world_size=2)
    >>> [(row.rank, row.row) for row in history.trace(1)]
    [(0, 2), (1, 3)]
    >>> [(row.step, row.rank, row.row) for row in history.find([0])]
    [(0, 0, 1), (0, 1, 0)]

    Args:
        source: Rows of a dataset, or a mixture.
        batch_size: Rows in a batch; a list if it changed, one for each segment of the run.
        seed: The seed of `batches(shuffle=True, seed=...)`; None if rows were not shuffled, and for a
            mixture, which has its own.
        world_size: Number of ranks; a list if it changed.
        drop_last: True if smaller last batches were left out.
        balance: True if the run balanced its ranks.
        states: The results of `state_dict` from which the run resumed, in order. The run began at the
            first row.
        from_state: The run began at the first state: steps count from there.
        local: The lanes and the window of `batches(shuffle="local")`.

    Raises:
        ConfigError: A number is out of its range, or there are not as many as there are segments.
        DatasetError: A state belongs to other data, or is not from this run.
    """

    def __init__(
        self,
        source: Rows | Mixture,
        batch_size: Sizes,
        *,
        seed: int | None = None,
        world_size: Sizes = 1,
        drop_last: bool = False,
        balance: bool = False,
        states: Sequence[Mapping[str, Any]] = (),
        from_state: bool = False,
        local: Local | None = None,
    ) -> None:
        seed = None if isinstance(source, Mixture) else seed
        if from_state and not states:
            raise ConfigError("steps can only be counted from a state if there is one: give it with --state")
        first = make_order(source, None, seed, balance=balance, local=local)
        for state in states:
            restore(state, source, first)
        starts = [*([] if from_state else [None]), *states]
        batches = _spread("batch size", batch_size, len(starts))
        worlds = _spread("world size", world_size, len(starts))
        self.segments: list[RunSegment] = []
        for nth, start in enumerate(starts):
            after = starts[nth + 1] if nth + 1 < len(starts) else None
            begun = _begin(source, first, start, after)
            segment = RunSegment(*begun, worlds[nth], batches[nth], drop_last)
            if self.segments and start is not None:
                step = self.segments[-1].find_step(start["epoch"], start["position"])
                segment = replace(segment, first_step=step)
            self.segments.append(segment)

    def count_steps(self, epochs: int) -> int:
        """Return the number of steps up to the end of so many epochs."""
        last = self.segments[-1]
        return last.first_step + last.count_before(0, max(epochs, last.order.epoch))

    def trace(self, step: int, *, rank: int | None = None, epochs: int | None = None) -> list[TracedRow]:
        """Return the rows of a step, of every rank or of one.

        Args:
            step: Counted from 0, where the run began.
            rank: Only the rows of this rank.
            epochs: The number of epochs of the run; by default up to the one it last resumed in.

        Raises:
            DatasetError: The run has no such step. The message contains the number of steps.
            ConfigError: There is no such rank.
        """
        segment = next(
            (each for each in reversed(self.segments) if each.first_step <= step), self.segments[0]
        )
        if epochs is None:
            epochs = self.segments[-1].order.epoch + 1
        steps = self.count_steps(epochs)
        if not 0 <= step < steps:
            raise DatasetError(
                f"there is no step {step:,}: in {epochs} epoch{'s' * (epochs != 1)} of "
                f"{len(segment.order):,} rows the run has {steps:,} steps"
                f"{f', 0 to {steps - 1:,}' if steps else ''}"
            )
        if rank is not None:
            check_rank(rank, segment.world_size)
        found: list[TracedRow] = []
        for each in range(segment.world_size) if rank is None else [rank]:
            epoch, positions = segment.locate(step, each)
            where = [np.full_like(positions, step), np.full_like(positions, each), np.arange(len(positions))]
            found += _describe(segment, epoch, positions, where)
        return found

    def find(
        self, documents: Collection[int], *, source: int = 0, until: int | None = None
    ) -> list[TracedRow]:
        """Return every row of the run that holds tokens of these documents, with their spans only.

        Args:
            documents: Numbers of documents in their dataset.
            source: The index of the dataset in a mixture, as `TracedRow.source`.
            until: The number of steps that the run has done; by default up to the last state, or one epoch
                if there is none.

        Returns:
            The rows, ordered by step, rank and index in the batch.
        """
        last = None
        if until is None and len(self.segments) > 1:
            until = self.segments[-1].first_step
        elif until is None:
            last = self.segments[0].order.epoch
            if len(self.segments[0].order) == NEVER:
                raise ConfigError(
                    "a stream has no end: give until, the number of steps that the run has done"
                )
            until = self.count_steps(last + 1)
        wanted = np.unique(np.fromiter(documents, dtype=np.int64))
        only = frozenset(wanted.tolist())
        found: list[TracedRow] = []
        ends = [*(segment.first_step for segment in self.segments[1:]), until]
        for segment, end in zip(self.segments, ends, strict=True):
            rows = list_sources(segment.source)[source].find_documents(wanted)
            # The end of the segment if it is within one epoch. Later epochs have fewer rows.
            steps = min(end, until) - segment.first_step
            bound = segment.position + steps * segment.world_size * segment.batch_size
            for epoch in segment.list_epochs_before(min(end, until)):
                if last is None or epoch <= last:
                    mixture = segment.source if isinstance(segment.source, Mixture) else None
                    numbers = rows if mixture is None else mixture.find(source, rows, epoch)
                    positions = segment.order.in_epoch(epoch).invert(numbers, bound)
                    where = segment.find(epoch, positions)
                    seen = (where[0] >= 0) & (where[0] < min(end, until))
                    found += _describe(segment, epoch, positions[seen], [each[seen] for each in where], only)
        return sorted(found, key=lambda row: (row.step, row.rank, row.place))

    def find_difference(self, other: Rows | Mixture, epochs: int) -> int | None:
        """Return the first step that reads different tokens if the run continues with `other`, or None.

        The run is at its last state, or at its beginning; `other` is read from the same position on.
        """
        mine, total = self.segments[-1], len(other)
        balance = mine.order.work is not None
        order = make_order(other, [total], mine.order.seed, epoch=mine.order.epoch, balance=balance)
        theirs = replace(mine, source=other, order=order, position=min(mine.position, total))
        for step in range(mine.first_step, self.count_steps(epochs)):
            for rank in range(mine.world_size):
                if _read(mine, step, rank) != _read(theirs, step, rank):
                    return step
        return None


def _read(segment: RunSegment, step: int, rank: int) -> list[bytes]:
    """Return the tokens of each row of a rank's batch."""
    sources, rows = segment.find_rows(*segment.locate(step, rank))
    owners = list_sources(segment.source)
    return [
        owners[source][row].tobytes() for source, row in zip(sources.tolist(), rows.tolist(), strict=True)
    ]


def _spread(name: str, given: Sizes, count: int) -> list[int]:
    sizes = [given] if isinstance(given, int) else list(given)
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"the {name} is {given}; it must be at least 1")
    if len(sizes) not in {1, count - 1, count}:
        segments = "segment" if count == 1 else "segments"
        raise ConfigError(
            f"{len(sizes)} {name}s for a run of {count} {segments}: give one for all of them, or one for each"
        )
    return sizes + [sizes[-1]] * (count - len(sizes))


def _begin(
    source: Rows | Mixture,
    first: Order | LocalOrder,
    start: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> tuple[Rows | Mixture, Order | LocalOrder, int]:
    """Return the source, the order and the position at the start of a segment. `after` is its last state.

    `first` is the order at the beginning of the run, but of the source as it is now.
    """
    seed, local, balance = first.seed, first.local, first.work is not None
    then = source if after is None else source.as_of(after["source"])
    assert then is not None, "restore has checked every state"
    if start is None:
        order, position = make_order(then, None, seed, balance=balance, local=local), 0
    elif local is None and start["ends"][-1] > len(then):
        raise DatasetError("a state has more rows than the one after it: give them in order")
    else:
        order, position = restore(start, then, first)
    if after is not None and local is None:
        expected = order.ends if after["epoch"] == order.epoch else [len(then)]
        if list(after["ends"]) != expected:
            raise DatasetError(
                f"a state was saved where the epoch had the segments {list(after['ends'])}; from the start "
                f"before it, it has {expected}: a state in between is missing"
            )
    return then, order, position


def _describe(
    segment: RunSegment,
    epoch: int,
    positions: Int64s,
    where: list[Int64s],
    only: frozenset[int] | None = None,
) -> Iterator[TracedRow]:
    """Yield the rows at some positions of an epoch, with all spans or with those of some documents."""
    owners, (sources, rows) = list_sources(segment.source), segment.find_rows(epoch, positions)
    columns = (column.tolist() for column in (*where, positions, sources, rows))
    for step, rank, place, position, source, row in zip(*columns, strict=True):
        spans = (Span(*span) for span in owners[source].spans(row).tolist())
        parts = tuple(span for span in spans if only is None or span.document in only)
        yield TracedRow(step, rank, place, epoch, position, source, row, parts)
