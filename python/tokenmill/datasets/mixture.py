"""Read several datasets as one, in exact proportions.

`order.py` computes the source of any row. Each source has its own order, which starts again whenever the
source has been read completely.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tokenmill.datasets.feed import Feed, explain_invalid
from tokenmill.datasets.local_order import LocalOrder
from tokenmill.datasets.order import NEVER, Order, Schedule, Stage, count_turns, derive
from tokenmill.datasets.rows import Rows, make_columns
from tokenmill.datasets.views import Packing, Tail
from tokenmill.errors import ConfigError

Int64s = NDArray[np.int64]
# The lanes and the window of a stream: every rank reads all its shards, since positions are dealt by weight.
STREAM_ORDER = (1, 8)
Weights = Mapping[str, float | Fraction] | Sequence[float | Fraction]


def _to_float(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


def _name_values(given: Any, info: ValidationInfo) -> Any:
    """Return values by the names of the sources, from a list in their order or from one value for all."""
    names: list[str] = info.context  # type: ignore[assignment]
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != len(names):
            raise ValueError(f"expected {len(names)} values, one for each source")
        return dict(zip(names, given, strict=True))
    values = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name in values:
        if name not in names:
            raise ValueError(f"{name!r} is not a source; the sources are {', '.join(names)}")
    return values


_Weight = Annotated[float, BeforeValidator(_to_float), Field(ge=0, allow_inf_nan=False)]
_Epochs = Annotated[PositiveFloat, BeforeValidator(_to_float), Field(lt=1e12)]


class _StageOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    start: NonNegativeInt = Field(alias="from")
    weights: Annotated[dict[str, _Weight], BeforeValidator(_name_values)]

    @model_validator(mode="before")
    @classmethod
    def _read_pair(cls, stage: Any) -> Any:
        if isinstance(stage, Sequence) and len(stage) == 2:
            return {"from": stage[0], "weights": stage[1]}
        return stage

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        if not any(weights.values()):
            raise ValueError("all weights are 0; at least one source needs a weight above 0")
        return weights


class _Options(BaseModel):
    """The arguments of `Mixture`, with `weights` as one stage."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    stages: list[_StageOptions]
    seed: int | None
    stop: Literal["first", "last"]
    rows_per_step: PositiveInt
    steps: PositiveInt | None
    epochs: Annotated[dict[str, _Epochs | None], BeforeValidator(_name_values)]

    @field_validator("stages")
    @classmethod
    def _check_order(cls, stages: list[_StageOptions]) -> list[_StageOptions]:
        starts = [stage.start for stage in stages]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"stages begin at the steps {starts}; expected 0, then later and later ones")
        return stages


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
        stop: "first" ends before a source would be read more often than `epochs` allows, by default once.
            "last" continues until every source has been read completely, and repeats smaller ones in a new
            order each time.
        stages: Weights that change, instead of `weights`: `(step, weights)` for each stage, the first from
            step 0.
        rows_per_step: Rows of all ranks in one step, the unit of `stages` and `steps`.
        steps: The number of steps, instead of `stop`. Sources repeat until then.
        epochs: The maximum number of passes over a source, for all or by name.

    Raises:
        ConfigError: The sources do not match, a weight is invalid or of an unknown source, a stage ends
            before it begins, or a source would exceed its `epochs`.
    """

    def __init__(
        self,
        sources: Sequence[Rows] | Mapping[str, Rows],
        weights: Weights | None = None,
        *,
        seed: int | None = None,
        stop: Literal["first", "last"] = "first",
        stages: Sequence[Any] | None = None,
        rows_per_step: int = 1,
        steps: int | None = None,
        epochs: float | Fraction | Mapping[str, float | Fraction] | None = None,
    ) -> None:
        if not isinstance(sources, Mapping):
            sources = {str(nth): rows for nth, rows in enumerate(sources)}
        self.names, self.sources = list(sources), list(sources.values())
        # The rows of a pass over each source. A stream is in one endless pass, in local order.
        self.lengths = [NEVER if rows.dataset.shards.endless else len(rows) for rows in self.sources]
        self._local_orders: dict[tuple[int, int], LocalOrder] = {}
        _check_sources(sources, self.lengths)
        if (weights is None) == (stages is None):
            raise ConfigError("a mixture takes either weights or stages: give one of the two")
        given = {
            "stages": [(0, weights)] if stages is None else list(stages),
            "seed": seed,
            "stop": stop,
            "rows_per_step": rows_per_step,
            "steps": steps,
            "epochs": epochs,
        }
        try:
            options = _Options.model_validate(given, context=self.names)
        except ValidationError as error:
            problem = explain_invalid(error)
            raise ConfigError(problem if weights is None else problem.removeprefix("stages.0.")) from None
        self.seed = seed
        self.rows_per_step = rows_per_step
        self.stages = [
            Stage(each.start * rows_per_step, count_turns([each.weights.get(name, 0) for name in self.names]))
            for each in options.stages
        ]
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
            raise ConfigError(f"{path}: {explain_invalid(error)}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def _find_end(self, options: _Options) -> int:
        """Return the number of rows by `steps` or `stop`, and check the limits of `epochs`."""
        usual = 1 if options.stop == "first" and options.steps is None else None
        most = [options.epochs.get(name) or usual for name in self.names]
        for name, times, rows in zip(self.names, most, self.lengths, strict=True):
            if times is not None and rows == NEVER:
                raise ConfigError(f"{name} is a stream, whose rows are not counted: set steps, and no epochs")
        limits = [
            NEVER if times is None else int(Fraction(times) * length)
            for times, length in zip(most, self.lengths, strict=True)
        ]
        reached = [self._find_position(nth, limit) for nth, limit in enumerate(limits)]
        first = min(reached)
        if options.steps is not None:
            length = options.steps * self.rows_per_step
            if first < length:
                nth = reached.index(first)
                rows = self.lengths[nth]
                raise ConfigError(
                    f"{self.names[nth]} would be read {self._schedule.count(length)[nth] / rows:.2f} times "
                    f"in {options.steps:,} steps, but only {limits[nth] / rows:.2f} times are allowed, which "
                    f"is up to step {first // self.rows_per_step:,}: give it less weight, end there, or "
                    "allow more epochs"
                )
            return length
        if options.stop == "first":
            return first
        used = [nth for nth in range(len(self.names)) if any(stage.turns[nth] for stage in self.stages)]
        ends = {nth: self._find_position(nth, len(self.sources[nth]) - 1) for nth in used}
        final = max(ends.values())
        if final == NEVER and first == NEVER:
            name = next(self.names[nth] for nth in used if ends[nth] == NEVER)
            raise ConfigError(
                f"stop='last' would never end: {name} has no weight in the last stage and has not given "
                "all its rows before; set steps"
            )
        return min(first, NEVER if final == NEVER else final + 1)

    def _find_position(self, source: int, turn: int) -> int:
        """Return the position of a turn of a source, from 0, or `NEVER` if it does not occur."""
        if turn == NEVER:
            return NEVER
        return int(self._schedule.find(source, np.array([turn], dtype=np.int64))[0])

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

    def __getitem__(self, position: int) -> NDArray[Any]:
        """Return the row at a position of the mixture."""
        source, row = self.locate(np.array([range(self._length)[position]], dtype=np.int64))
        return self.sources[int(source[0])][int(row[0])]

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
        positions = np.concatenate(found)
        return positions[positions < self._length]

    def _make_order(self, source: int, epoch: int, number: int) -> Order | LocalOrder:
        seed = None if self.seed is None else derive(self.seed, source, epoch)
        if self.lengths[source] == NEVER:
            # Keep the window of a stream, which is costly to find.
            if (source, epoch) not in self._local_orders:
                self._local_orders[source, epoch] = self.sources[source].order_locally(seed, STREAM_ORDER)
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
        return Feed(
            self, batch_size, rank=rank, world_size=world_size, drop_last=drop_last, prefetch=prefetch
        )

    def account(self) -> dict[str, Any]:
        """Return the rows, tokens (with padding) and epochs of each source, per stage and in total."""
        length, each = self._length, self.context_length
        bounds = [*(min(stage.start, length) for stage in self.stages), length]
        counts = [self._schedule.count(bound) for bound in bounds]
        stages = [
            {"first_step": stage.start // self.rows_per_step, "rows": end - start}
            for stage, (start, end) in zip(self.stages, pairwise(bounds), strict=True)
        ]
        sources = []
        for nth, (name, rows) in enumerate(zip(self.names, self.sources, strict=True)):
            given = [after[nth] - before[nth] for before, after in pairwise(counts)]
            parts = [
                {"weight": float(stage.weight(nth)), "rows": some, "tokens": some * each}
                for stage, some in zip(self.stages, given, strict=True)
            ]
            total, there = counts[-1][nth], None if self.lengths[nth] == NEVER else len(rows)
            sources.append(
                {
                    "name": name,
                    "dataset": rows.dataset.address,
                    "rows": total,
                    "tokens": total * each,
                    "rows_there": there,
                    "epochs": there and total / there,
                    "stages": parts,
                }
            )
        return {
            "rows": length,
            "steps": length // self.rows_per_step,
            "tokens": length * each,
            "stages": stages,
            "sources": sources,
        }

    def identity(self) -> dict[str, Any]:
        """Return the values that determine the rows and their order, ready for JSON."""
        return {
            "sources": [rows.identity() for rows in self.sources],
            "stages": [[stage.start, list(stage.turns)] for stage in self.stages],
            "seed": self.seed,
            "rows": self._length,
        }

    def as_of(self, identity: Mapping[str, Any]) -> Mixture | None:
        """Return this mixture if it has this identity, or None. Added rows move those of all sources."""
        return self if identity == self.identity() else None


def _check_sources(sources: Mapping[str, Rows], counts: Sequence[int]) -> None:
    if not sources:
        raise ConfigError("a mixture needs at least one source")
    empty = [name for name, count in zip(sources, counts, strict=True) if not count]
    if empty:
        raise ConfigError(f"source {empty[0]} has no rows: leave it out, or use a smaller context_length")
    lengths = sorted({rows.context_length for rows in sources.values()})
    if len(lengths) > 1:
        raise ConfigError(f"the sources have rows of {lengths} tokens; cut them to one context_length")
    columns = {rows.columns for rows in sources.values()}
    if len(columns) > 1:
        raise ConfigError(f"the sources have different columns: {' and '.join(map(str, sorted(columns)))}")
