"""Read several datasets as one, in exact proportions.

The weights become whole numbers of turns in a period, which repeats within a stage, so the source of any row
is found in O(1). After any number of rows of a stage each source has had its share of them to within one row.
Each source has its own order, which starts again whenever the source has been read completely.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    ValidationInfo,
)

from tokenmill import _core
from tokenmill.base.records import explain
from tokenmill.datasets.feed import Feed
from tokenmill.datasets.order import NEVER, LocalOrder, Order, derive
from tokenmill.datasets.rows import Rows, make_columns
from tokenmill.datasets.views import Packing, Tail
from tokenmill.errors import ConfigError

Int64s = NDArray[np.int64]
# The lanes and the window of a stream: every rank reads all its shards, since positions are dealt by weight.
STREAM_ORDER = (1, 8)
# Weights with a common denominator up to this (six decimals) are exact.
LONGEST_PERIOD = 1_000_000
# Other weights are rounded to a multiple of 1 / NEAREST_PERIOD.
NEAREST_PERIOD = 1 << 16


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
        """Return the source and the turn number of each row."""
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
        """Return the row of each turn of a source, or `NEVER` for a turn that does not occur."""
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
        stage = self.stages[nth]
        total: list[int] = (self._counts[nth] + stage.count(rows - stage.start)).tolist()
        return total


def count_turns(weights: Sequence[float]) -> tuple[int, ...]:
    """Return how many turns each source has in one period: `[1/2, 1/3, 1/6]` -> `(3, 2, 1)`."""
    fractions = [Fraction(weight) for weight in weights]
    if not any(fractions):
        raise ConfigError("all weights are 0; at least one source needs a weight above 0")
    exact = [weight / sum(fractions) for weight in fractions]
    # A float such as 0.1 is not one tenth: take the simplest fraction within its precision.
    simple = [value.limit_denominator(LONGEST_PERIOD) for value in exact]
    common = lcm(*(value.denominator for value in simple))
    close = all(abs(a - b) <= Fraction(1, 1 << 40) for a, b in zip(simple, exact, strict=True))
    if close and sum(simple) == 1 and common <= LONGEST_PERIOD:
        return tuple(int(value * common) for value in simple)
    return tuple(max(value > 0, round(value * NEAREST_PERIOD)) for value in exact)


def _name_values(given: Any, info: ValidationInfo) -> Any:
    """Return values by the names of the sources, from a list in their order or from one value for all."""
    names: list[str] = info.context  # type: ignore[assignment]
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(names):
            raise ValueError(f"{len(names)} values, one for each source")
        return dict(zip(names, given, strict=True))
    values = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    if unknown := [name for name in values if name not in names]:
        raise ValueError(f"the sources {', '.join(names)}, without {unknown[0]!r}")
    return values


def _read_stage(stage: Any) -> Any:
    """Return the step and the weights of a stage of a file, `{"from": step, "weights": weights}`."""
    if isinstance(stage, Mapping) and stage.keys() == {"from", "weights"}:
        return stage["from"], stage["weights"]
    return stage


_Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Weights = Annotated[dict[str, _Weight], BeforeValidator(_name_values)]
_Epochs = Annotated[float, Field(gt=0, lt=1e12)]


class _Options(BaseModel):
    """The arguments of `Mixture`, with `weights` as one stage."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    stages: list[Annotated[tuple[NonNegativeInt, _Weights], BeforeValidator(_read_stage)]]
    seed: int | None
    rows_per_step: PositiveInt
    steps: PositiveInt | None
    epochs: Annotated[dict[str, _Epochs | None], BeforeValidator(_name_values)]


class _File(BaseModel):
    """A mixture in a YAML file. `Mixture` validates the other keys, which are its arguments."""

    model_config = ConfigDict(extra="allow", strict=True, defer_build=True)

    sources: dict[str, str] = Field(min_length=1)
    context_length: PositiveInt | None = None
    overlap: NonNegativeInt | None = None
    packing: Packing | None = None
    tail: Tail | None = None
    columns: list[str] | None = None


class Mixture:
    """`Mixture([web, code], [0.8, 0.2], seed=1)`: 8 rows of `web` and 2 of `code` in every 10.

    >>> import tokenmill
    >>> options = {"tokenizer": tokenizer, "verbose_level": "ERROR"}
    >>> web = tokenmill.prepare(dataset=["a page of the web"] * 8, output="web", **options)
    >>> code = tokenmill.prepare(dataset=["x = 1"] * 9, output="code", **options)
    >>> mixture = tokenmill.Mixture([each.rows(context_length=8) for each in (web, code)], [0.75, 0.25])
    >>> [str(weight) for weight in mixture.weights]
    ['3/4', '1/4']
    >>> stages = [(0, {"web": 1}), (4, {"web": 1, "code": 1})]
    >>> sources = {"web": web.rows(context_length=8), "code": code.rows(context_length=8)}
    >>> staged = tokenmill.Mixture(sources, stages=stages, steps=10)
    >>> [(each["name"], each["rows"]) for each in staged.account()["sources"]]
    [('web', 7), ('code', 3)]

    Args:
        sources: Rows of one length and with the same columns; a dictionary gives them names.
        weights: The relative share of each source, in order or by name. A share may be 0.
        seed: The seed of the order within each source. None keeps the order of the files.
        stages: Weights that change, instead of `weights`: `(step, weights)` for each stage, the first from
            step 0.
        rows_per_step: Rows of all ranks in one step, the unit of `stages` and `steps`.
        steps: The number of steps. Sources repeat until then, in a new order each time. Without it, the
            mixture ends before a source would be read more often than `epochs` allows, by default once.
        epochs: The maximum number of passes over a source, for all or by name.

    Raises:
        ConfigError: The sources do not match, a weight is invalid or of an unknown source, a stage ends
            before it begins, or a source would exceed its `epochs`.
    """

    def __init__(
        self,
        sources: Sequence[Rows] | Mapping[str, Rows],
        weights: Mapping[str, float] | Sequence[float] | None = None,
        *,
        seed: int | None = None,
        stages: Sequence[Any] | None = None,
        rows_per_step: int = 1,
        steps: int | None = None,
        epochs: float | Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(sources, Mapping):
            sources = {str(nth): rows for nth, rows in enumerate(sources)}
        self.names, self.sources = list(sources), list(sources.values())
        # The rows of a pass over each source. A stream is in one endless pass, in local order.
        self.lengths = [NEVER if rows.dataset.shards.endless else len(rows) for rows in self.sources]
        self._local_orders: dict[tuple[int, int], LocalOrder] = {}
        lengths = sorted({rows.context_length for rows in self.sources})
        columns = sorted({rows.columns for rows in self.sources})
        if len(lengths) != 1 or len(columns) != 1 or 0 in self.lengths:
            raise ConfigError(
                f"the sources have {self.lengths} rows of {lengths} tokens with the columns {columns}; each "
                "needs at least one row, and all need one context_length and the same columns"
            )
        if (weights is None) == (stages is None):
            raise ConfigError("a mixture takes either weights or stages: give one of the two")
        given = {
            "stages": [(0, weights)] if stages is None else list(stages),
            "seed": seed,
            "rows_per_step": rows_per_step,
            "steps": steps,
            "epochs": epochs,
        }
        try:
            options = _Options.model_validate(given, context=self.names)
        except ValidationError as error:
            problem = explain(error)
            if weights is not None:
                problem = problem.replace("stages[0][1]", "weights")
            raise ConfigError(problem) from None
        self.seed = seed
        self.rows_per_step = rows_per_step
        self.stages = [
            Stage(start * rows_per_step, count_turns([shares.get(name, 0) for name in self.names]))
            for start, shares in options.stages
        ]
        starts = [stage.start for stage in self.stages]
        if starts[:1] != [0] or any(a >= b for a, b in pairwise(starts)):
            raise ConfigError("stages must begin at step 0, and then at later and later steps")
        self._schedule = Schedule(self.stages)
        self._length = self._find_end(options)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mixture:
        """Load a mixture from a YAML file with its datasets by name and the arguments above.

        See docs/reading.md. Raise a `ConfigError` that names the file if it is invalid.
        """
        from tokenmill.datasets.dataset import open_dataset
        from tokenmill.settings.yaml_file import read_keys

        found = read_keys(path, [*_File.model_fields, *_Options.model_fields, "weights"])
        try:
            file = _File(**found)
            view = file.model_dump(exclude={"sources"} | set(file.model_extra or {}))
            rows = {name: open_dataset(address).rows(**view) for name, address in file.sources.items()}
            return cls(rows, **file.model_extra or {})
        except ValidationError as error:
            raise ConfigError(f"{path}: {explain(error)}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def _find_end(self, options: _Options) -> int:
        """Return the number of rows by `steps`, or where the first source reaches its `epochs`."""
        ends = [NEVER] * len(self.names)
        for nth, (name, length) in enumerate(zip(self.names, self.lengths, strict=True)):
            times = options.epochs.get(name) or (1 if options.steps is None else None)
            if times is None:
                continue
            if length == NEVER:
                raise ConfigError(f"{name} is a stream, whose rows are not counted: set steps, and no epochs")
            limit = np.array([int(Fraction(times) * length)], dtype=np.int64)
            ends[nth] = int(self._schedule.find(nth, limit)[0])
        first = min(ends)
        if options.steps is None:
            return first
        rows = options.steps * self.rows_per_step
        if first < rows:
            nth = ends.index(first)
            raise ConfigError(
                f"{self.names[nth]} would be read {self._schedule.count(rows)[nth] / self.lengths[nth]:.2f} "
                f"times in {options.steps:,} steps, and reaches its epochs at step "
                f"{first // self.rows_per_step:,}: give it less weight, end there, or allow more epochs"
            )
        return rows

    @property
    def weights(self) -> list[Fraction]:
        """The exact proportions of the first stage."""
        return [self.stages[0].weight(nth) for nth in range(len(self.sources))]

    @property
    def context_length(self) -> int:
        """The length of every row."""
        return self.sources[0].context_length

    def __len__(self) -> int:
        return self._length

    def locate(self, positions: Int64s, epoch: int = 0) -> tuple[Int64s, Int64s]:
        """Return the source and the row number of each position."""
        chosen, turns = self._schedule.locate(positions)
        rows = np.empty_like(positions)
        for source in range(len(self.sources)):
            mine = np.flatnonzero(chosen == source)
            passes, within = np.divmod(turns[mine], self.lengths[source])
            for number in np.unique(passes).tolist():
                part = passes == number
                rows[mine[part]] = self._make_order(source, epoch, number).rows(within[part])
        return chosen, rows

    def find(self, source: int, rows: Int64s, epoch: int = 0) -> Int64s:
        """Return the positions of rows of a source, in every pass over it: the inverse of `locate`."""
        length, found, number = self.lengths[source], [rows[:0]], 0
        end = self._schedule.count(self._length)[source]
        while number * length < end:
            turns = self._make_order(source, epoch, number).invert(rows, end) + number * length
            found.append(self._schedule.find(source, turns))
            number += 1
        positions: Int64s = np.concatenate(found)
        return positions[positions < self._length]

    def _make_order(self, source: int, epoch: int, number: int) -> Order | LocalOrder:
        seed = None if self.seed is None else derive(self.seed, source, epoch)
        if self.lengths[source] == NEVER:
            # Keep the window of a stream, which is costly to find.
            if (source, epoch) not in self._local_orders:
                layout = self.sources[source].layout
                self._local_orders[source, epoch] = LocalOrder(layout, seed=seed, local=STREAM_ORDER)
            return self._local_orders[source, epoch]
        return Order([len(self.sources[source])], seed=seed, epoch=number)

    def gather(self, rows: Int64s, epoch: int = 0) -> dict[str, Any]:
        """Return the rows at these positions as an array per column, and `source_ids`: each row's source."""
        chosen, numbers = self.locate(rows, epoch)
        ids = np.empty((len(rows), self.context_length), np.result_type(*(own.dtype for own in self.sources)))
        loss_mask, found = None, []
        for source, owner in enumerate(self.sources):
            mine = np.flatnonzero(chosen == source)
            ids[mine], spans, mask = owner.read(numbers[mine])
            if mask is not None:
                # A dataset of texts trains every token.
                loss_mask = np.ones(ids.shape, bool) if loss_mask is None else loss_mask
                loss_mask[mine] = mask
            found.append((mine[spans[0]], *spans[1:]) if spans else ())
        spans = tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))
        if spans:
            order = np.lexsort((spans[2], spans[0]))
            spans = tuple(array[order] for array in spans)
        multiple = max(owner.view.multiple_of for owner in self.sources)
        batch = {"input_ids": ids} | make_columns(self.sources[0].columns, ids, spans, loss_mask, multiple)
        return batch | {"source_ids": chosen}

    def batches(
        self,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        prefetch: int = 0,
    ) -> Feed:
        """Return the batches of this rank, with a state to resume from, shuffled by the mixture's seed."""
        order = Order([len(self)], seed=None)
        return Feed(self, order, batch_size, rank, world_size, drop_last=drop_last, prefetch=prefetch)

    def account(self) -> dict[str, Any]:
        """Return the rows, tokens (with padding) and epochs of each source, and the tokens in each stage."""
        length, each = self._length, self.context_length
        bounds = [*(min(stage.start, length) for stage in self.stages), length]
        counts = [self._schedule.count(bound) for bound in bounds]
        stages = []
        for stage, (before, after) in zip(self.stages, pairwise(counts), strict=True):
            rows = [b - a for a, b in zip(before, after, strict=True)]
            sources = {
                name: {"weight": float(stage.weight(nth)), "tokens": rows[nth] * each}
                for nth, name in enumerate(self.names)
            }
            first = stage.start // self.rows_per_step
            stages.append({"first_step": first, "rows": sum(rows), "sources": sources})
        totals = [
            {
                "name": name,
                "rows": rows,
                "tokens": rows * each,
                "epochs": None if there == NEVER else rows / there,
            }
            for name, rows, there in zip(self.names, counts[-1], self.lengths, strict=True)
        ]
        return {
            "rows": length,
            "steps": length // self.rows_per_step,
            "tokens": length * each,
            "stages": stages,
            "sources": totals,
        }

    def identity(self) -> dict[str, Any]:
        """Return the values that determine the rows and their order, ready for JSON."""
        return {
            "sources": [rows.identity() for rows in self.sources],
            "stages": [[stage.start, list(stage.turns)] for stage in self.stages],
            "seed": self.seed,
            "rows": self._length,
        }

    def extends(self, identity: Mapping[str, Any]) -> bool:
        """Return True if this mixture has an identity. Added rows move those of all sources."""
        return identity == self.identity()
