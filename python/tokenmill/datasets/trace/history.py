"""The history of a run: how it was started, and from which states it went on. That is all a trace needs.

A state says where a run was, whatever its world size; the rows between two states were dealt out to the
ranks of that time. A dataset that has grown since is looked at as it was then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.reader.order import Order
from tokenmill.datasets.reader.state import read_state
from tokenmill.datasets.reader.turns import Turns
from tokenmill.datasets.trace.legs import Leg
from tokenmill.datasets.trace.places import find_rows
from tokenmill.datasets.trace.traced import Stretch, TracedRow
from tokenmill.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.feed import RowSource

    Sizes = int | Sequence[int]


class History:
    """What every rank of a run read at every step.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> history = tokenmill.History(dataset.rows(context_length=4), 1, seed=7, world_size=2)
    >>> [(row.rank, row.row) for row in history.trace(1)]
    [(0, 2), (1, 3)]
    >>> [(row.step, row.rank, row.row) for row in history.find([0])]
    [(0, 0, 1), (0, 1, 0)]

    Args:
        source: Rows of a dataset, or a mixture.
        batch_size: Rows in a batch; a list where it changed, one for each leg of the run.
        seed: What `batches(shuffle=True, seed=...)` was given; None where rows were not shuffled, and for a
            mixture, which has its own.
        world_size: How many ranks; a list where it changed.
        drop_last: Whether smaller last batches were left out.
        states: What `state_dict` gave where the run went on, in order. The run began at the first row.
        from_state: The run began at the first state: steps count from there.

    Raises:
        ConfigError: A number is out of its range, or there are not as many as there are legs.
        DatasetError: A state belongs to other data, or is not from this run.
    """

    def __init__(
        self,
        source: RowSource,
        batch_size: Sizes,
        *,
        seed: int | None = None,
        world_size: Sizes = 1,
        drop_last: bool = False,
        states: Sequence[Mapping[str, Any]] = (),
        from_state: bool = False,
    ) -> None:
        seed = None if source.keeps_order else seed
        if from_state and not states:
            raise ConfigError("steps can only be counted from a state if there is one: give it with --state")
        for state in states:
            read_state(state, source, seed)
        count = len(states) + (not from_state)
        batches = _spread("batch size", batch_size, count)
        worlds = _spread("world size", world_size, count)
        starts = [*([] if from_state else [None]), *states]
        self.legs: list[Leg] = []
        for nth, start in enumerate(starts):
            after = starts[nth + 1] if nth + 1 < count else None
            leg = Leg(*_begin(source, seed, start, after), worlds[nth], batches[nth], drop_last)
            if self.legs and start is not None:
                leg = replace(leg, first_step=self.legs[-1].find_step(start["epoch"], start["position"]))
            self.legs.append(leg)

    @property
    def steps_to_last_state(self) -> int:
        """How many steps were done where the run last went on; 0 if it never did."""
        return self.legs[-1].first_step

    def count_steps(self, epochs: int) -> int:
        """How many steps the run has by the end of so many epochs."""
        leg = self.legs[-1]
        return leg.first_step + leg.count_before(0, max(epochs, leg.order.epoch))

    def trace(self, step: int, *, rank: int | None = None, epochs: int | None = None) -> list[TracedRow]:
        """The rows of a step, of every rank or of one.

        Args:
            step: Counted from 0, where the run began.
            rank: Only what this rank got.
            epochs: How many epochs the run has; left out, the one it last went on in is its last.

        Raises:
            DatasetError: The run has no such step; the message says how many it has.
            ConfigError: There is no such rank.
        """
        leg = next((leg for leg in reversed(self.legs) if leg.first_step <= step), self.legs[0])
        if epochs is None:
            epochs = self.legs[-1].order.epoch + 1
        steps = self.count_steps(epochs)
        if not 0 <= step < steps:
            raise DatasetError(
                f"there is no step {step:,}: in {epochs} epoch{'s' * (epochs != 1)} of {len(leg.order):,} "
                f"rows the run has {steps:,} steps{f', 0 to {steps - 1:,}' if steps else ''}"
            )
        ranks = range(leg.world_size) if rank is None else [Turns(rank, leg.world_size).rank]
        return [row for each in ranks for row in self._rows(leg, step, each)]

    def _rows(self, leg: Leg, step: int, rank: int) -> Iterator[TracedRow]:
        found = leg.locate(step, rank)
        if found is None:
            return
        epoch, positions = found
        where = (np.full_like(positions, step), np.full_like(positions, rank), np.arange(len(positions)))
        yield from _describe(leg, epoch, positions, where)

    def find(
        self, documents: Collection[int], *, source: int = 0, until: int | None = None
    ) -> list[TracedRow]:
        """Every row of the run that holds something of these documents, with their stretches only.

        Args:
            documents: Numbers of documents in their dataset.
            source: Which dataset of a mixture, as `TracedRow.source`.
            until: How many steps the run has done; left out, up to the last state, or one epoch if there
                is none.

        Returns:
            The rows in the order of steps, ranks and places.
        """
        last = None
        if until is None and len(self.legs) > 1:
            until = self.steps_to_last_state
        elif until is None:
            last = self.legs[0].order.epoch
            until = self.count_steps(last + 1)
        wanted = np.unique(np.fromiter(documents, dtype=np.int64))
        found: list[TracedRow] = []
        for nth, leg in enumerate(self.legs):
            end = self.legs[nth + 1].first_step if nth + 1 < len(self.legs) else until
            rows = _find_in_leg(leg, min(end, until), wanted, source)
            found += [row for row in rows if last is None or row.epoch <= last]
        return sorted(found, key=lambda row: (row.step, row.rank, row.place))


def _spread(name: str, given: Sizes, count: int) -> list[int]:
    sizes = [given] if isinstance(given, int) else list(given)
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"the {name} is {given}; it must be at least 1")
    if len(sizes) not in {1, count - 1, count}:
        legs = "leg" if count == 1 else "legs"
        raise ConfigError(
            f"{len(sizes)} {name}s for a run of {count} {legs}: give one for all of them, or one for each"
        )
    return sizes + [sizes[-1]] * (count - len(sizes))


def _begin(
    source: RowSource, seed: int | None, start: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> tuple[RowSource, Order, int]:
    """The source, the order and the position with which a leg began; `after` is the state at its end."""
    then = source if after is None else source.as_of(after["source"])
    total = len(then)
    if start is None:
        order, position = Order([total], seed=seed), 0
    else:
        if start["ends"][-1] > total:
            raise DatasetError("a state has more rows than the one after it: give them in order")
        order = Order(list(start["ends"]), seed=seed, epoch=start["epoch"]).extend(total)
        position = start["position"]
    if after is not None:
        expected = order.ends if after["epoch"] == order.epoch else [total]
        if list(after["ends"]) != expected:
            raise DatasetError(
                f"a state was saved where the epoch had the segments {list(after['ends'])}; from the start "
                f"before it, it has {expected}: a state in between is missing"
            )
    return then, order, position


def _describe(
    leg: Leg,
    epoch: int,
    positions: NDArray[np.int64],
    where: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    only: frozenset[int] | None = None,
) -> Iterator[TracedRow]:
    """The rows at some positions of an epoch, in full, or with the stretches of some documents."""
    sources, rows = leg.source.locate(leg.order.in_epoch(epoch).rows(positions), epoch)
    for step, rank, place, position, source, row in zip(
        *(column.tolist() for column in (*where, positions, sources, rows)), strict=True
    ):
        spans = leg.source.sources[source].spans(row).tolist()
        parts = tuple(Stretch(*span) for span in spans if only is None or span[0] in only)
        yield TracedRow(step, rank, place, epoch, position, leg.source.number(source), row, parts)


def _find_in_leg(leg: Leg, end: int, documents: NDArray[np.int64], source: int) -> Iterator[TracedRow]:
    """The rows with these documents in the steps of a leg before `end`."""
    numbers = [leg.source.number(nth) for nth in range(len(leg.source.sources))]
    if source not in numbers:
        return
    index = numbers.index(source)
    rows = find_rows(leg.source.sources[index], documents)
    only = frozenset(documents.tolist())
    for epoch in leg.list_epochs_before(end):
        positions = leg.order.in_epoch(epoch).invert(leg.source.find(index, rows, epoch))
        steps, ranks, places = leg.find(epoch, positions)
        seen = (steps >= 0) & (steps < end)
        where = steps[seen], ranks[seen], places[seen]
        yield from _describe(leg, epoch, positions[seen], where, only)
