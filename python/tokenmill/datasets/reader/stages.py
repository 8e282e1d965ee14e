"""The stages of a mixture: which weights hold from which row on, and over how many rows they change.

Weights become fractions with a common denominator, so that what every source is due after any number of rows
is a whole number of small parts, and exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Any

from tokenmill.errors import ConfigError

# Weights with a common denominator up to this, so six decimals, are kept exactly.
LONGEST_PERIOD = 1_000_000
# Other weights are taken to the nearest multiple of one part in so many.
NEAREST_PERIOD = 1 << 16
# A change that is dealt out row by row before a run begins takes 0.2 s for a million rows.
LONGEST_CHANGE = 1 << 26
# What is due is counted in 128 bits: so many of them for the parts of a row, the others for rows.
MOST_PARTS = 1 << 80
Weights = Mapping[str, float | Fraction] | Sequence[float | Fraction]
_KEYS = ("from", "to", "weights", "warm_in")


@dataclass(frozen=True, slots=True)
class Stage:
    """From row `start` on each source has `turns` of `sum(turns)`, after a linear change of `change` rows."""

    start: int
    turns: tuple[int, ...]
    change: int = 0

    @property
    def period(self) -> int:
        """After so many rows of the stage every source has had a whole number of turns."""
        return sum(self.turns)

    def weight(self, source: int) -> Fraction:
        """The share of a source, exactly."""
        return Fraction(self.turns[source], self.period)


def read_stages(
    names: Sequence[str], stages: Sequence[Any], rows_per_step: int
) -> tuple[list[Stage], int | None]:
    """Stages as they are given, in rows; and the step at which the last one ends, where that is said."""
    if not stages:
        raise ConfigError("stages is empty: give at least one, from step 0 on")
    read = [_read_stage(place, stage) for place, stage in enumerate(stages)]
    if read[0]["from"] != 0:
        raise ConfigError(f"the first stage begins at step {read[0]['from']}; it must begin at step 0")
    if read[0]["warm_in"]:
        raise ConfigError("the first stage has a warm_in, but nothing before it to change from")
    for place, (this, after) in enumerate(pairwise(read)):
        _check_order(place, this, after)
    last = read[-1]
    if last["to"] is not None and last["to"] <= last["from"]:
        raise _explain_early_end(len(read) - 1, last, last["to"])
    found = [
        Stage(
            each["from"] * rows_per_step,
            tuple(count_turns(read_weights(names, each["weights"], f"stage {place}: "))),
            each["warm_in"] * rows_per_step,
        )
        for place, each in enumerate(read)
    ]
    return found, last["to"]


def _read_stage(place: int, stage: Any) -> dict[str, Any]:
    if not isinstance(stage, Mapping):
        if not isinstance(stage, Sequence) or not 2 <= len(stage) <= 3:
            raise ConfigError(
                f"stage {place} is {stage!r}; expected (step, weights) or (step, weights, warm_in)"
            )
        stage = dict(zip(("from", "weights", "warm_in"), stage, strict=False))
    unknown = [key for key in stage if key not in _KEYS]
    if unknown or "weights" not in stage or "from" not in stage:
        problem = f"has {unknown[0]!r}" if unknown else "has no from or no weights"
        raise ConfigError(f"stage {place} {problem}; a stage has {', '.join(_KEYS)}")
    read = {"to": None, "warm_in": 0} | dict(stage)
    for key in ("from", "to", "warm_in"):
        value = read[key]
        if (value is not None or key != "to") and (type(value) is not int or value < 0):
            raise ConfigError(f"stage {place}: {key} is {value!r}; it must be a number of steps, from 0")
    return read


def _check_order(place: int, this: dict[str, Any], after: dict[str, Any]) -> None:
    if after["from"] <= this["from"] or (this["to"] is not None and this["to"] <= this["from"]):
        raise _explain_early_end(place, this, after["from"] if this["to"] is None else this["to"])
    if this["to"] not in {None, after["from"]}:
        raise ConfigError(
            f"stage {place} ends at step {this['to']} and stage {place + 1} begins at step {after['from']}: "
            "they must be the same"
        )
    if this["from"] + this["warm_in"] > after["from"]:
        raise ConfigError(
            f"stage {place} changes its weights until step {this['from'] + this['warm_in']}, but stage "
            f"{place + 1} begins at step {after['from']}: use a shorter warm_in"
        )


def _explain_early_end(place: int, stage: dict[str, Any], end: int) -> ConfigError:
    return ConfigError(
        f"stage {place} begins at step {stage['from']} and ends at step {end}: it ends before it begins"
    )


def read_weights(names: Sequence[str], weights: Any, where: str = "") -> list[Fraction]:
    """A weight for each source, by name or in order; one that is not named has none."""
    if isinstance(weights, Mapping):
        strange = [name for name in weights if name not in names]
        if strange:
            raise ConfigError(
                f"{where}weights has {strange[0]!r}, which is not a source; the sources are "
                f"{', '.join(names)}"
            )
        weights = [weights.get(name, 0) for name in names]
    if not isinstance(weights, Sequence) or isinstance(weights, str):
        raise ConfigError(f"{where}weights is {weights!r}; expected a number for each source")
    if len(weights) != len(names):
        raise ConfigError(
            f"{where}a mixture of {len(names)} sources has {len(weights)} weights: give one for each"
        )
    for index, weight in enumerate(weights):
        number = isinstance(weight, int | float | Fraction) and not isinstance(weight, bool)
        if not number or not weight >= 0 or weight == float("inf"):
            raise ConfigError(f"{where}weight {index} is {weight}; a weight is a finite number of at least 0")
    if not any(weights):
        raise ConfigError(f"{where}all weights are 0: at least one source needs a weight above 0")
    return [Fraction(weight) for weight in weights]


def count_turns(weights: Sequence[Fraction]) -> list[int]:
    """How many turns each source has in one period: `[1/2, 1/3, 1/6]` -> `[3, 2, 1]`."""
    total = sum(weights)
    exact = [weight / total for weight in weights]
    # A float such as 0.1 is not one tenth; what was meant is the simplest fraction within its precision.
    simple = [value.limit_denominator(LONGEST_PERIOD) for value in exact]
    common = lcm(*(value.denominator for value in simple))
    close = all(abs(a - b) <= Fraction(1, 1 << 40) for a, b in zip(simple, exact, strict=True))
    if close and sum(simple) == 1 and common <= LONGEST_PERIOD:
        return [int(value * common) for value in simple]
    return _round_turns(exact)


def _round_turns(exact: Sequence[Fraction]) -> list[int]:
    shares = [value * NEAREST_PERIOD for value in exact]
    turns = [max(share > 0, int(share)) for share in shares]
    by_rest = sorted(
        (index for index, share in enumerate(shares) if share), key=lambda index: turns[index] - shares[index]
    )
    for step in range(abs(NEAREST_PERIOD - sum(turns))):
        up = sum(turns) < NEAREST_PERIOD
        turns[by_rest[step % len(by_rest)] if up else turns.index(max(turns))] += 1 if up else -1
    return turns


def count_parts(stages: Sequence[Stage]) -> int:
    """Into how many parts a row is cut, so that what is due at any row is a whole number of them."""
    parts = lcm(*(stage.period for stage in stages))
    for before, stage in pairwise(stages):
        if stage.change > LONGEST_CHANGE:
            raise ConfigError(
                f"a warm_in of {stage.change:,} rows is too long; the limit is {LONGEST_CHANGE:,}: split it "
                "into several stages"
            )
        if stage.change:
            parts = lcm(parts, 2 * stage.change * lcm(before.period, stage.period))
    if parts > MOST_PARTS:
        raise ConfigError(
            "the weights and warm_ins of the stages have no common denominator that is small enough: round "
            "the weights to thousandths, and the steps of each warm_in to hundreds"
        )
    return parts
