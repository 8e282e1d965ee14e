"""The state of a feed: the position of a run in its data, with a checksum.

A corrupt position would be a valid one, and the model would silently see other rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, field_validator

from tokenmill.base.durable import digest
from tokenmill.datasets.reader.shuffle import Order
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.datasets.reader.feed import RowSource

STATE_VERSION = 2


class State(BaseModel):
    """The keys of a state dict; `ends` are the segments of the order (`Order.ends`)."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[2]
    epoch: NonNegativeInt
    position: NonNegativeInt
    ends: list[NonNegativeInt] = Field(min_length=1)
    seed: int | None
    source: dict[str, Any]
    checksum: str

    @field_validator("ends")
    @classmethod
    def _check_ends(cls, ends: list[int]) -> list[int]:
        if any(a >= b for a, b in pairwise(ends)):
            raise ValueError("the numbers must be rising")
        return ends


def explain_invalid(error: ValidationError) -> str:
    """Return the key, the value and the reason of the first error."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    reason = first["msg"][:1].lower() + first["msg"][1:]
    return f"{key}: {reason}" if first["type"] == "missing" else f"{key} is {first['input']!r}: {reason}"


def make_state(source: RowSource, order: Order, position: int) -> dict[str, Any]:
    """Return the state as plain JSON values."""
    state = {
        "version": STATE_VERSION,
        "epoch": order.epoch,
        "position": position,
        "ends": list(order.ends),
        "seed": order.seed,
        "source": source.identity(),
    }
    return state | {"checksum": digest(state)}


def restore(state: Any, source: RowSource, seed: int | None) -> tuple[Order, int]:
    """Return the order and position of a state; raise `DatasetError` if it is corrupt or of other data."""
    found = _parse(state)
    then = source.as_of(found.source)
    if then is None:
        raise DatasetError(
            "the state belongs to other data: "
            + "; ".join(_list_differences(found.source, source.identity()))
            + ". Open the dataset it was saved with, or start without a state"
        )
    if found.seed != seed:
        raise DatasetError(
            f"the state was saved with seed {found.seed!r}, this reader has {seed!r}: pass the same seed"
        )
    if found.ends[-1] != len(then) or found.position > len(then):
        raise DatasetError(
            f"the state is at row {found.position} of {found.ends[-1]}, but its data has {len(then)} rows"
        )
    return Order(found.ends, seed=seed, epoch=found.epoch).extend(len(source)), found.position


def _parse(state: Any) -> State:
    try:
        found = State.model_validate(state if isinstance(state, dict) else dict(state))
        if digest({key: state[key] for key in State.model_fields if key != "checksum"}) != found.checksum:
            raise ValueError("its content does not match its checksum")  # noqa: TRY301
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        problem = explain_invalid(error) if isinstance(error, ValidationError) else str(error)
        raise DatasetError(
            f"the state of the data is not what state_dict() of this Tokenmill returns: {problem}. Take it "
            "from another checkpoint, or start without one"
        ) from None
    return found


def _list_differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """Return `["context_length is 512 in the state and 1024 here"]`."""
    return [
        f"{key} is {theirs.get(key)!r} in the state and {mine.get(key)!r} here"
        for key in sorted({*map(str, theirs), *mine})
        if theirs.get(key) != mine.get(key)
    ]
