"""Several datasets read as one, in fixed proportions that hold over any prefix, to the row.

After *n* rows, source *i* has given more than `n * weight - 1` and fewer than `n * weight + 1` of them.
Weights become fractions of one period; inside it every turn of a source has a window (not before
its share is due, not after the next one is), and the turn whose window closes first goes first. Since
all turns are one row long, that order always meets every window. The period's schedule is stored, so
any position of the mixture is found without walking up to it.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tokenmill.base.errors import ConfigError
from tokenmill.datasets.reader.feed import Feed
from tokenmill.datasets.reader.order import Order
from tokenmill.datasets.reader.shuffle import derive
from tokenmill.datasets.reader.spans import CU_SEQLENS
from tokenmill.datasets.reader.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.rows import Rows

# Weights with a common denominator up to this, so six decimals, are kept exactly; its schedule takes 0.5 s.
LONGEST_PERIOD = 1_000_000
# Other weights are taken to the nearest multiple of one part in so many.
NEAREST_PERIOD = 1 << 16
Stop = Literal["first", "last"]


class Mixture:
    """`Mixture([web, code], [0.8, 0.2], seed=1)`: 8 rows of `web` and 2 of `code` in every 10.

    >>> import tokenmill
    >>> options = {"tokenizer": tokenizer, "verbose_level": "ERROR"}
    >>> web = tokenmill.prepare(dataset=["a page of the web"] * 8, output="web", **options)
    >>> code = tokenmill.prepare(dataset=["x = 1"] * 9, output="code", **options)
    >>> mixture = tokenmill.Mixture([each.rows(context_length=8) for each in (web, code)], [0.75, 0.25])
    >>> [str(weight) for weight in mixture.weights]
    ['3/4', '1/4']

    Args:
        sources: Rows of one length and with the same columns.
        weights: How often each has its turn, in any unit; a weight of 0 leaves a source out.
        seed: The order inside of each source; None takes rows as they are.
        stop: "first" ends before any source would give a row twice; "last" goes on until every source has
            given all its rows, repeating the smaller ones, each time in another order.

    Raises:
        ConfigError: The sources do not fit each other, or a weight is negative or not a number.
    """

    keeps_order = True

    def __init__(
        self,
        sources: Sequence[Rows],
        weights: Sequence[float | Fraction],
        *,
        seed: int | None = None,
        stop: Stop = "first",
    ) -> None:
        _check(sources, weights, stop)
        used = [index for index, weight in enumerate(weights) if weight]
        self.sources = [sources[index] for index in used]
        self._numbers = np.array(used, dtype=np.int64)
        self.seed = seed
        self.stop = stop
        self._turns = period([Fraction(weights[index]) for index in used])
        self._schedule = schedule(self._turns)
        # Where in the period each source has its turns, and which of its turns each place is.
        self._places = [np.flatnonzero(self._schedule == source) for source in range(len(used))]
        self._before = np.empty_like(self._schedule)
        for places in self._places:
            self._before[places] = np.arange(len(places))
        self._length = self._end()

    @property
    def weights(self) -> list[Fraction]:
        """The proportions in use, exactly, without sources of weight 0."""
        total = sum(self._turns)
        return [Fraction(turns, total) for turns in self._turns]

    @property
    def context_length(self) -> int:
        """The length of every row."""
        return self.sources[0].context_length

    def _end(self) -> int:
        ends = [self._position(source, len(rows)) for source, rows in enumerate(self.sources)]
        if self.stop == "first":
            return min(ends)
        return max(self._position(source, len(rows) - 1) + 1 for source, rows in enumerate(self.sources))

    def _position(self, source: int, turn: int) -> int:
        """The position at which a source has its turn number `turn`, from 0."""
        periods, place = divmod(turn, self._turns[source])
        return periods * len(self._schedule) + int(self._places[source][place])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> NDArray[Any]:
        """The row at a position of the mixture."""
        if position < 0:
            position += self._length
        if not 0 <= position < self._length:
            raise IndexError(f"row {position} is outside of 0..{self._length - 1}")
        source, row = self.locate(np.array([position], dtype=np.int64))
        return self.sources[int(source[0])][int(row[0])]

    def locate(
        self, positions: NDArray[np.int64], epoch: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which source, and which of its rows, each position is."""
        periods, places = np.divmod(positions, len(self._schedule))
        chosen = self._schedule[places]
        turns = periods * np.array(self._turns, dtype=np.int64)[chosen] + self._before[places]
        rows = np.empty_like(positions)
        for source, owner in enumerate(self.sources):
            mine = np.flatnonzero(chosen == source)
            passes, within = np.divmod(turns[mine], len(owner))
            for number in np.unique(passes).tolist():
                part = passes == number
                rows[mine[part]] = self._order(source, epoch, number).rows(within[part])
        return chosen, rows

    def number(self, source: int) -> int:
        """The number by which the mixture was given a source, which batches and traces have."""
        return int(self._numbers[source])

    def find(self, source: int, rows: NDArray[np.int64], epoch: int = 0) -> NDArray[np.int64]:
        """The positions at which rows of a source come, in every pass over it: the inverse of `locate`."""
        length, found, number = len(self.sources[source]), [rows[:0]], 0
        while self._position(source, number * length) < self._length:
            turns = self._order(source, epoch, number).invert(rows) + number * length
            found.append(self._positions(source, turns))
            number += 1
        positions = np.concatenate(found)
        return positions[positions < self._length]

    def _positions(self, source: int, turns: NDArray[np.int64]) -> NDArray[np.int64]:
        periods, places = np.divmod(turns, self._turns[source])
        found: NDArray[np.int64] = periods * len(self._schedule) + self._places[source][places]
        return found

    def as_of(self, identity: Mapping[str, Any]) -> Mixture:  # noqa: ARG002
        """Itself: a mixture never grows."""
        return self

    def _order(self, source: int, epoch: int, number: int) -> Order:
        seed = None if self.seed is None else derive(self.seed, source, epoch)
        return Order([len(self.sources[source])], seed=seed, epoch=number)

    def gather(self, rows: NDArray[np.int64], epoch: int = 0) -> dict[str, Any]:
        """The rows at these positions, an array per column, and `source`: the number of each row's source."""
        chosen, numbers = self.locate(rows, epoch)
        parts = [owner.gather(numbers[chosen == source]) for source, owner in enumerate(self.sources)]
        batch: dict[str, Any] = {}
        for key in self.sources[0].gather(numbers[:0]):
            kind = np.result_type(*(part[key].dtype for part in parts))
            batch[key] = np.empty((len(rows), self.context_length), dtype=kind)
            for source, part in enumerate(parts):
                batch[key][chosen == source] = part[key]
        batch["source"] = self._numbers[chosen]
        return batch

    def batches(
        self,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        prefetch: int = 0,
    ) -> Feed:
        """Batches of this rank, with a state that a run can go on from; the mixture's own seed shuffles."""
        return Feed(self, batch_size, turns=Turns(rank, world_size), drop_last=drop_last, prefetch=prefetch)

    def identity(self) -> dict[str, Any]:
        """What decides the rows and their order."""
        return {
            "sources": [rows.identity() for rows in self.sources],
            "weights": [str(weight) for weight in self.weights],
            "seed": self.seed,
            "stop": self.stop,
        }

    def grew_from(self, identity: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Never: more rows in one source would move the rows of the others."""
        return False


def period(weights: Sequence[Fraction]) -> list[int]:
    """How many turns each source has in one period: `[1/2, 1/3, 1/6]` -> `[3, 2, 1]`."""
    total = sum(weights)
    exact = [weight / total for weight in weights]
    # A float such as 0.1 is not one tenth; what was meant is the simplest fraction within its precision.
    simple = [value.limit_denominator(LONGEST_PERIOD) for value in exact]
    common = lcm(*(value.denominator for value in simple))
    close = all(abs(a - b) <= Fraction(1, 1 << 40) for a, b in zip(simple, exact, strict=True))
    if close and sum(simple) == 1 and common <= LONGEST_PERIOD:
        return [int(value * common) for value in simple]
    return _nearest(exact)


def _nearest(exact: Sequence[Fraction]) -> list[int]:
    shares = [value * NEAREST_PERIOD for value in exact]
    turns = [max(1, int(share)) for share in shares]
    by_rest = sorted(range(len(shares)), key=lambda index: turns[index] - shares[index])
    for step in range(abs(NEAREST_PERIOD - sum(turns))):
        up = sum(turns) < NEAREST_PERIOD
        turns[by_rest[step % len(turns)] if up else turns.index(max(turns))] += 1 if up else -1
    return turns


def schedule(turns: Sequence[int]) -> NDArray[np.int64]:
    """Whose turn it is at each place of one period: `[2, 1]` -> `[0, 1, 0]`."""
    length = sum(turns)
    numbers = [np.arange(count, dtype=np.int64) for count in turns]
    opens = np.concatenate([n * length // count for n, count in zip(numbers, turns, strict=True)])
    closes = np.concatenate([-(-(n + 1) * length // count) for n, count in zip(numbers, turns, strict=True)])
    sources = np.repeat(np.arange(len(turns)), turns)
    first = np.argsort(opens, kind="stable")
    windows = iter(zip(opens[first].tolist(), closes[first].tolist(), sources[first].tolist(), strict=True))
    waiting: list[tuple[int, int]] = []
    upcoming = next(windows, None)
    order = np.empty(length, dtype=np.int64)
    for place in range(length):
        while upcoming is not None and upcoming[0] <= place:
            heapq.heappush(waiting, upcoming[1:])
            upcoming = next(windows, None)
        order[place] = heapq.heappop(waiting)[1]
    return order


def _check(sources: Sequence[Rows], weights: Sequence[float | Fraction], stop: str) -> None:
    if not sources or len(sources) != len(weights):
        raise ConfigError(
            f"a mixture of {len(sources)} sources has {len(weights)} weights: give one for each"
        )
    for index, weight in enumerate(weights):
        if not weight >= 0 or weight == float("inf"):
            raise ConfigError(f"weight {index} is {weight}; a weight is a finite number of at least 0")
    if not any(weights):
        raise ConfigError("all weights are 0: at least one source needs a weight above 0")
    if stop not in ("first", "last"):
        raise ConfigError(f"stop is {stop!r}; it must be 'first' or 'last'")
    lengths = sorted({rows.context_length for rows in sources})
    if len(lengths) > 1:
        raise ConfigError(f"the sources have rows of {lengths} tokens; cut them to one context_length")
    columns = {rows.columns for rows in sources}
    if len(columns) > 1 or CU_SEQLENS in next(iter(columns)):
        raise ConfigError("the sources must have the same columns, without cu_seqlens: use document_ids")
