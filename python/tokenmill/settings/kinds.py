"""What a value may be, by its annotation alone: a value is checked, and where it came as text it is read.

`check(int, "8")` is `8`; `check(int, "8", strict=True)` is a `MismatchError`, since a file has its own types.
The schema needs whole numbers, numbers, text, switches, choices and lists, and nothing else.
"""

from __future__ import annotations

import types
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Callable

FALSE = {"false", "0", "no", "off", "f", "n"}
TRUE = {"true", "1", "yes", "on", "t", "y"}


class MismatchError(ValueError):
    """A value is not what its annotation says; `expected` says what would be, `item` which one of a list."""

    def __init__(self, expected: str, item: int | None = None) -> None:
        super().__init__(f"expected {expected}" + (f" as item {item}" if item is not None else ""))
        self.expected = expected
        self.item = item


class Limit(NamedTuple):
    """`Limit(">", 0)` and `Limit("≥", 0)`: how small a number may be."""

    sign: Literal[">", "≥"]
    least: int

    def check(self, value: float) -> None:
        """Refuse a number that is too small."""
        if value < self.least or (value == self.least and self.sign == ">"):
            words = "above" if self.sign == ">" else "of at least"
            raise MismatchError(f"a number {words} {self.least}")


class Read(NamedTuple):
    """Another way to write a value, read before it is checked; `text` is the pattern of such strings."""

    function: Callable[[Any], Any]
    text: str | None = None


def check(annotation: Any, value: Any, *, strict: bool = False) -> Any:
    """The value as its annotation says, or a `MismatchError`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _check_rules(annotation, value, strict=strict)
    if origin in {Union, types.UnionType}:
        return _check_union(parts, value, strict=strict)
    if origin is Literal:
        return _check_choice(parts, value)
    if origin is tuple:
        return _check_items(parts[0], value, strict=strict)
    return _PLAIN[annotation](value, strict=strict)


def strip_rules(annotation: Any) -> Any:
    """`Annotated[int, Limit(">", 0)]` -> `int`."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def find_rules(annotation: Any) -> tuple[Any, ...]:
    """`Annotated[int, Limit(">", 0)]` -> `(Limit(">", 0),)`."""
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _check_rules(annotation: Any, value: Any, *, strict: bool) -> Any:
    for rule in find_rules(annotation):
        value = rule.function(value) if isinstance(rule, Read) else value
    value = check(strip_rules(annotation), value, strict=strict)
    for rule in find_rules(annotation):
        if isinstance(rule, Limit):
            rule.check(value)
    return value


def _check_union(kinds: tuple[Any, ...], value: Any, *, strict: bool) -> Any:
    """A value whose very type is among them stays as it is; any other is tried against each in turn."""
    if type(value) in kinds:
        return value
    refused = []
    for kind in kinds:
        if kind is types.NoneType:
            continue
        try:
            return check(kind, value, strict=strict)
        except MismatchError as error:
            refused.append(error)
    raise MismatchError(" or ".join(dict.fromkeys(error.expected for error in refused)), refused[0].item)


def _check_choice(words: tuple[Any, ...], value: Any) -> Any:
    if any(value == word and type(value) is type(word) for word in words):
        return value
    *most, last = (repr(word) for word in words)
    raise MismatchError("one of " + (f"{', '.join(most)} or {last}" if most else last))


def _check_items(kind: Any, value: Any, *, strict: bool) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise MismatchError("a list")
    items = []
    for place, item in enumerate(value, start=1):
        try:
            items.append(check(kind, item, strict=strict))
        except MismatchError as error:
            raise MismatchError(error.expected, place) from None
    return tuple(items)


def _check_text(value: Any, *, strict: bool) -> str:  # noqa: ARG001
    if isinstance(value, str):
        return value
    raise MismatchError("text")


def _check_whole(value: Any, *, strict: bool) -> int:
    """`true` does not pass as the number 1."""
    try:
        if not strict and (isinstance(value, str) or (isinstance(value, float) and value.is_integer())):
            return int(value)
        if not isinstance(value, bool):
            return int(value.__index__())
    except (ValueError, AttributeError):
        pass
    raise MismatchError("a whole number")


def _check_number(value: Any, *, strict: bool) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float if strict else int | float | str):
            number = float(value)
            if not isnan(number):  # no limit would refuse it
                return number
    except (ValueError, OverflowError):
        pass
    raise MismatchError("a number")


def _check_switch(value: Any, *, strict: bool) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower() if isinstance(value, str | int) and not strict else ""
    if word in TRUE | FALSE:
        return word in TRUE
    raise MismatchError("true or false")


_PLAIN: dict[Any, Callable[..., Any]] = {
    str: _check_text,
    int: _check_whole,
    float: _check_number,
    bool: _check_switch,
}
