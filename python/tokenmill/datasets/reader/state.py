"""The state of a reader: where a run is in its data, with a checksum, so that no damage goes unnoticed.

A training job keeps it in a checkpoint for days. A position that changed by accident is one that could have
been, and the model would see other rows without anybody noticing; so a state has a checksum of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import digest
from tokenmill.datasets.reader.order import Order
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from tokenmill.datasets.reader.feed import RowSource

STATE_VERSION = 2
_KEYS = ("version", "epoch", "position", "ends", "seed", "source")
_CHECKSUM = "checksum"


def make_state(source: RowSource, order: Order, position: int) -> dict[str, Any]:
    """A small object of plain JSON values."""
    values = (STATE_VERSION, order.epoch, position, list(order.ends), order.seed, source.identity())
    state = dict(zip(_KEYS, values, strict=True))
    return state | {_CHECKSUM: digest(state)}


def read_state(state: Any, source: RowSource, seed: int | None) -> tuple[Order, int]:
    """The order and position of a state; raises `DatasetError` unless it is whole and belongs to `source`."""
    _check_whole(state)
    mine, theirs = source.identity(), state["source"]
    grew = mine != theirs and source.grew_from(theirs)
    if mine != theirs and not grew:
        raise DatasetError(
            "the state belongs to other data: "
            + "; ".join(_list_differences(theirs, mine))
            + ". Open the dataset it was saved with, or start without a state"
        )
    if state["seed"] != seed:
        raise DatasetError(
            f"the state was saved with seed {state['seed']!r}, this reader has {seed!r}: pass the same seed"
        )
    ends, position, total = list(state["ends"]), state["position"], len(source)
    rows = theirs.get("rows", ends[-1]) if grew else total
    if ends[-1] != rows or position > rows or rows > total:
        raise DatasetError(
            f"the state is at row {position} of {ends[-1]}, but its data has {rows} rows, this data {total}"
        )
    return Order(ends, seed=seed, epoch=state["epoch"]).extend(total), position


def _check_whole(state: Any) -> None:
    if not isinstance(state, Mapping):
        raise DatasetError(f"the state of the data is {type(state).__name__}, not what state_dict() gives")
    version = state.get("version")
    if type(version) is not int or not 1 <= version <= STATE_VERSION:
        raise DatasetError(
            f"the state of the data has version {version!r}, this Tokenmill reads up to {STATE_VERSION}: "
            "it is damaged, from a newer release, or not from state_dict()"
        )
    # The first version had no checksum.
    expected = {*_KEYS} if version == 1 else {*_KEYS, _CHECKSUM}
    if set(state) != expected:
        raise _explain_damage(f"it has the keys {', '.join(map(str, state))}")
    for key, right, words in (
        ("epoch", _is_count(state["epoch"]), "a whole number"),
        ("position", _is_count(state["position"]), "a whole number"),
        ("seed", state["seed"] is None or type(state["seed"]) is int, "a whole number or None"),
        ("source", isinstance(state["source"], Mapping), "an object"),
        ("ends", _is_rising(state["ends"]), "rising whole numbers"),
    ):
        if not right:
            raise _explain_damage(f"{key} is {state[key]!r}, expected {words}")
    if version > 1 and state[_CHECKSUM] != _digest({key: state[key] for key in _KEYS}):
        raise _explain_damage("its content does not match its checksum")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_rising(ends: Any) -> bool:
    if not isinstance(ends, list | tuple) or not ends or not all(map(_is_count, ends)):
        return False
    return all(a < b for a, b in pairwise(ends))


def _digest(state: dict[str, Any]) -> str | None:
    try:
        return digest(state)
    except (TypeError, ValueError, RecursionError):
        return None  # it holds values that no state holds


def _explain_damage(found: str) -> DatasetError:
    return DatasetError(
        f"the state of the data is damaged: {found}. Take it from another checkpoint, or start without one"
    )


def _list_differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """`["context_length is 512 in the state and 1024 here"]`."""
    return [
        f"{key} is {theirs.get(key)!r} in the state and {mine.get(key)!r} here"
        for key in sorted({*map(str, theirs), *mine})
        if theirs.get(key) != mine.get(key)
    ]
