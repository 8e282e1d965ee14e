"""What a value may be, by its annotation alone: a value is checked, and where it came as text it is read.

`check(int, "8")` is `8`; `check(int, "8", strict=True)` is a `MismatchError`, for a file has its own types.
The schema needs whole numbers, numbers, text, switches, choices, lists and sections, and nothing else.
"""

from __future__ import annotations

import types
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


class Above:
    """A number that is larger than this one."""

    def __init__(self, least: int) -> None:
        self.least = least

    def check(self, value: Any) -> None:
        """Refuse what is not."""
        if not value > self.least:
            raise MismatchError(f"a number above {self.least}")


class AtLeast:
    """This number or a larger one."""

    def __init__(self, least: int) -> None:
        self.least = least

    def check(self, value: Any) -> None:
        """Refuse what is less."""
        if not value >= self.least:
            raise MismatchError(f"a number of at least {self.least}")


class Read(NamedTuple):
    """Another way to write a value, read before it is checked; `text` is the pattern of such strings."""

    function: Callable[[Any], Any]
    text: str | None = None


def check(annotation: Any, value: Any, *, strict: bool = False) -> Any:
    """The value as its annotation says, or a `MismatchError`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _ruled(annotation, value, strict=strict)
    if origin in {Union, types.UnionType}:
        return _one_of(get_args(annotation), value, strict=strict)
    if origin is Literal:
        return _choice(get_args(annotation), value)
    if origin is tuple:
        return _items(get_args(annotation)[0], value, strict=strict)
    if annotation in _PLAIN:
        return _PLAIN[annotation](value, strict=strict)
    return value if isinstance(value, annotation) else annotation(**_mapping(value))


def without_rules(annotation: Any) -> Any:
    """`Annotated[int, Above(0)]` -> `int`."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def rules(annotation: Any) -> tuple[Any, ...]:
    """`Annotated[int, Above(0)]` -> `(Above(0),)`."""
    return get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()


def _ruled(annotation: Any, value: Any, *, strict: bool) -> Any:
    every = rules(annotation)
    for rule in every:
        value = rule.function(value) if isinstance(rule, Read) else value
    value = check(without_rules(annotation), value, strict=strict)
    for rule in every:
        if not isinstance(rule, Read):
            rule.check(value)
    return value


def _one_of(kinds: tuple[Any, ...], value: Any, *, strict: bool) -> Any:
    """A value whose very type is among them stays as it is; any other is tried on one after another."""
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


def _choice(words: tuple[Any, ...], value: Any) -> Any:
    if any(value == word and type(value) is type(word) for word in words):
        return value
    *most, last = (repr(word) for word in words)
    raise MismatchError("one of " + (f"{', '.join(most)} or {last}" if most else last))


def _items(kind: Any, value: Any, *, strict: bool) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise MismatchError("a list")
    items = []
    for place, item in enumerate(value, start=1):
        try:
            items.append(check(kind, item, strict=strict))
        except MismatchError as error:
            raise MismatchError(error.expected, place) from None
    return tuple(items)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MismatchError("a section of settings")
    return value


def _text(value: Any, *, strict: bool) -> str:  # noqa: ARG001
    if isinstance(value, str):
        return value
    raise MismatchError("text")


def _whole(value: Any, *, strict: bool) -> int:
    """`true` does not pass as the number 1."""
    try:
        if isinstance(value, str) and not strict:
            return int(value)
        if isinstance(value, float) and not strict and value.is_integer():
            return int(value)
        if isinstance(value, bool):
            raise MismatchError("a whole number")
        return int(value.__index__())
    except (ValueError, AttributeError):
        raise MismatchError("a whole number") from None


def _number(value: Any, *, strict: bool) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        if isinstance(value, str) and not strict:
            return float(value)
    except ValueError:
        pass
    raise MismatchError("a number")


def _switch(value: Any, *, strict: bool) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower() if isinstance(value, str | int) and not strict else ""
    if word in TRUE | FALSE:
        return word in TRUE
    raise MismatchError("true or false")


_PLAIN: dict[Any, Callable[..., Any]] = {str: _text, int: _whole, float: _number, bool: _switch}
