"""Several datasets read as one, in proportions that hold over any prefix, to the row, even where they change.

After *n* rows, source *i* has given more than its due less 1 and fewer than its due plus 1; that is the sum
of its weights at those rows. `schedule.py` says whose turn it is at any row without walking up to it; each
source has an order of its own, which begins anew whenever the source has been read through.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tokenmill.datasets.reader.feed import Feed
from tokenmill.datasets.reader.order import Order
from tokenmill.datasets.reader.schedule import NEVER, Schedule
from tokenmill.datasets.reader.shuffle import derive
from tokenmill.datasets.reader.spans import CU_SEQLENS
from tokenmill.datasets.reader.stages import Stage, count_turns, read_stages, read_weights
from tokenmill.datasets.reader.turns import Turns
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.rows import Rows
    from tokenmill.datasets.reader.stages import Weights

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
    >>> stages = [(0, {"web": 1}), (4, {"web": 1, "code": 1}, 2)]
    >>> sources = {"web": web.rows(context_length=8), "code": code.rows(context_length=8)}
    >>> staged = tokenmill.Mixture(sources, stages=stages, steps=10)
    >>> [(each["name"], each["rows"]) for each in staged.account()["sources"]]
    [('web', 8), ('code', 2)]

    Args:
        sources: Rows of one length and with the same columns; a dictionary gives them names.
        weights: How often each has its turn, in any unit, in order or by name; a weight of 0 leaves a source
            out.
        seed: The order inside each source; None takes rows as they are.
        stop: "first" ends before any source would give a row more often than `epochs` lets it, which is once;
            "last" goes on until every source has given all its rows, repeating the smaller ones, each time in
            another order.
        stages: Instead of `weights`, weights that change: `(step, weights)` or `(step, weights, warm_in)`
            for each, the first from step 0. Over `warm_in` steps the weights of the stage before change to
            these, in a line.
        rows_per_step: Rows of all ranks in one step, which `stages` and `steps` count in.
        steps: Where the mixture ends, instead of `stop`; sources repeat until then.
        epochs: The most often that a source may be read, for all or by name.

    Raises:
        ConfigError: The sources do not match, a weight is negative, not a number, or not of a source, a
            stage ends before it begins, or a source would be read more often than it may.
    """

    keeps_order = True

    def __init__(
        self,
        sources: Sequence[Rows] | Mapping[str, Rows],
        weights: Weights | None = None,
        *,
        seed: int | None = None,
        stop: Stop = "first",
        stages: Sequence[Any] | None = None,
        rows_per_step: int = 1,
        steps: int | None = None,
        epochs: float | Fraction | Mapping[str, float | Fraction] | None = None,
    ) -> None:
        if not isinstance(sources, Mapping):
            sources = {str(nth): rows for nth, rows in enumerate(sources)}
        named = dict(sources)
        _check(named, stop, rows_per_step, steps)
        if (weights is None) == (stages is None):
            raise ConfigError("a mixture takes either weights or stages: give one of the two")
        if stages is None:
            read, end = [Stage(0, tuple(count_turns(read_weights(list(named), weights))))], None
        else:
            read, end = read_stages(list(named), stages, rows_per_step)
        used = [nth for nth in range(len(named)) if any(stage.turns[nth] for stage in read)]
        self.names = [list(named)[nth] for nth in used]
        self.sources = [list(named.values())[nth] for nth in used]
        self._numbers = np.array(used, dtype=np.int64)
        self.seed = seed
        self.stop = stop
        self.rows_per_step = rows_per_step
        self.stages = [
            Stage(stage.start, tuple(stage.turns[nth] for nth in used), stage.change) for stage in read
        ]
        self._schedule = Schedule(self.stages)
        self._limits = self._read_limits(epochs, list(named), forever=steps is not None or end is not None)
        self._length = self._find_end(end if steps is None else steps)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixture:
        """The mixture of a YAML file: its datasets by name, and the arguments above; see docs/reading.md."""
        from tokenmill.datasets.reader.mixture_file import load_mixture

        return load_mixture(path)

    def _read_limits(self, epochs: Any, names: list[str], *, forever: bool) -> list[int]:
        """The most rows that each source may give."""
        given = epochs if isinstance(epochs, Mapping) else dict.fromkeys(names, epochs)
        strange = [name for name in given if name not in names]
        if strange:
            raise ConfigError(
                f"epochs has {strange[0]!r}, which is not a source; the sources are {', '.join(names)}"
            )
        usual = 1 if self.stop == "first" and not forever else None
        limits = []
        for name, rows in zip(self.names, self.sources, strict=True):
            most = usual if given.get(name) is None else given[name]
            if most is not None and (not isinstance(most, int | float | Fraction) or not 0 < most < 1e12):
                raise ConfigError(f"epochs of {name} is {most!r}; it must be a number above 0")
            limits.append(NEVER if most is None else int(Fraction(most) * len(rows)))
        return limits

    def _find_end(self, steps: int | None) -> int:
        reached = [self._find_position(nth, limit) for nth, limit in enumerate(self._limits)]
        first = min(reached)
        if steps is not None:
            length = steps * self.rows_per_step
            if first < length:
                raise self._explain_too_often(reached.index(first), first, length)
            return length
        if self.stop == "last":
            ends = [self._find_position(nth, len(rows) - 1) for nth, rows in enumerate(self.sources)]
            if max(ends) == NEVER and first == NEVER:
                name = self.names[ends.index(NEVER)]
                raise ConfigError(
                    f"stop='last' would never end: {name} has no weight in the last stage and has not given "
                    "all its rows before; set steps"
                )
            return min(first, max(ends) + 1 if max(ends) != NEVER else NEVER)
        return first

    def _explain_too_often(self, source: int, reached: int, length: int) -> ConfigError:
        rows = len(self.sources[source])
        needed = self._schedule.count(length)[source] / rows
        return ConfigError(
            f"{self.names[source]} would be read {needed:.2f} times in {length // self.rows_per_step:,} "
            f"steps, but only {self._limits[source] / rows:.2f} times are allowed, which is up to step "
            f"{reached // self.rows_per_step:,}: give it less weight, end there, or allow more epochs"
        )

    @property
    def weights(self) -> list[Fraction]:
        """The proportions in use, exactly, without sources of weight 0; those of the first stage."""
        return [self.stages[0].weight(nth) for nth in range(len(self.sources))]

    @property
    def context_length(self) -> int:
        """The length of every row."""
        return self.sources[0].context_length

    def _find_position(self, source: int, turn: int) -> int:
        """The position at which a source has its turn number `turn`, from 0; `NEVER` if it has none."""
        if turn == NEVER:
            return NEVER
        return int(self._schedule.find(source, np.array([turn], dtype=np.int64))[0])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> NDArray[Any]:
        """The row at a position of the mixture."""
        if position < 0:
            position += self._length
        if not 0 <= position < self._length:
            raise IndexError(f"row {position} is outside 0..{self._length - 1}")
        source, row = self.locate(np.array([position], dtype=np.int64))
        return self.sources[int(source[0])][int(row[0])]

    def locate(
        self, positions: NDArray[np.int64], epoch: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which source, and which of its rows, each position is."""
        chosen, turns = self._schedule.locate(positions)
        rows = np.empty_like(positions)
        for source, owner in enumerate(self.sources):
            mine = np.flatnonzero(chosen == source)
            passes, within = np.divmod(turns[mine], len(owner))
            for number in np.unique(passes).tolist():
                part = passes == number
                rows[mine[part]] = self._make_order(source, epoch, number).rows(within[part])
        return chosen, rows

    def number(self, source: int) -> int:
        """The number by which the mixture was given a source, which batches and traces have."""
        return int(self._numbers[source])

    def find(self, source: int, rows: NDArray[np.int64], epoch: int = 0) -> NDArray[np.int64]:
        """The positions at which rows of a source come, in every pass over it: the inverse of `locate`."""
        length, found, number = len(self.sources[source]), [rows[:0]], 0
        while self._find_position(source, number * length) < self._length:
            turns = self._make_order(source, epoch, number).invert(rows) + number * length
            found.append(self._schedule.find(source, turns))
            number += 1
        positions = np.concatenate(found)
        return positions[positions < self._length]

    def account(self) -> dict[str, Any]:
        """How many rows and tokens each source gives, in each stage and in all, and how often it repeats."""
        from tokenmill.datasets.reader.mixture_account import account_for

        return account_for(self)

    def count(self, rows: int) -> list[int]:
        """How many of the first so many rows come from each source."""
        return self._schedule.count(rows)

    def as_of(self, identity: Mapping[str, Any]) -> Mixture:  # noqa: ARG002
        """Itself: a mixture never grows."""
        return self

    def _make_order(self, source: int, epoch: int, number: int) -> Order:
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
        plain = {
            "sources": [rows.identity() for rows in self.sources],
            "weights": [str(weight) for weight in self.weights],
            "seed": self.seed,
            "stop": self.stop,
        }
        if len(self.stages) == 1 and self._length == self._measure_plain_length():
            return plain
        stages = [[stage.start, list(stage.turns), stage.change] for stage in self.stages]
        return plain | {"stages": stages, "rows": self._length}

    def _measure_plain_length(self) -> int:
        """How long it would be by its weights and `stop` alone."""
        ends = [self._find_position(nth, len(rows)) for nth, rows in enumerate(self.sources)]
        last = [self._find_position(nth, len(rows) - 1) + 1 for nth, rows in enumerate(self.sources)]
        return min(ends) if self.stop == "first" else max(last)

    def grew_from(self, identity: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Never: more rows in one source would move the rows of the others."""
        return False


def _check(sources: Mapping[str, Rows], stop: str, rows_per_step: int, steps: int | None) -> None:
    if not sources:
        raise ConfigError("a mixture needs at least one source")
    if stop not in ("first", "last"):
        raise ConfigError(f"stop is {stop!r}; it must be 'first' or 'last'")
    for name, number in (("rows_per_step", rows_per_step), ("steps", 1 if steps is None else steps)):
        if type(number) is not int or number < 1:
            raise ConfigError(f"{name} is {number!r}; it must be a whole number of at least 1")
    empty = [name for name, rows in sources.items() if not len(rows)]
    if empty:
        raise ConfigError(f"source {empty[0]} has no rows: leave it out, or use a smaller context_length")
    lengths = sorted({rows.context_length for rows in sources.values()})
    if len(lengths) > 1:
        raise ConfigError(f"the sources have rows of {lengths} tokens; cut them to one context_length")
    columns = {rows.columns for rows in sources.values()}
    if len(columns) > 1 or CU_SEQLENS in next(iter(columns)):
        raise ConfigError("the sources must have the same columns, without cu_seqlens: use document_ids")
