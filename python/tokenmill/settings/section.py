"""Settings, the base class of a group of settings, and the conversion of values to their types."""

from __future__ import annotations

import types
from contextlib import suppress
from dataclasses import field, fields
from math import inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

T = TypeVar("T")
Job = Literal["prepare", "train"]
Use = Literal["first", "often", "rare"]
SWITCHES = ("false", "true", "0", "1", "no", "yes", "off", "on")


class Setting(NamedTuple):
    """One key of a section.

    `only` is the one job that reads it, or None for both. If it `affects_output`, a resumed run must agree on
    it. `flag` is its name for users if that is not the key, `aliases` are other accepted names. `use` is the
    place in `--help`: "first", "often" under its section, or "rare" in `--help-all` alone.
    """

    annotation: Any
    default: Any
    help: str
    only: Job | None = None
    affects_output: bool = False
    flag: str = ""
    aliases: tuple[str, ...] = ()
    use: Use = "rare"


def setting(default: T, help: str, use: Use = "rare", **marks: Any) -> T:  # noqa: A002
    """Return a field that changes only speed or messages; `marks` are the fields of `Setting`."""
    return field(default=default, metadata={"help": help, "use": use, **marks})


def identity(default: T, help: str, use: Use = "rare", **marks: Any) -> T:  # noqa: A002
    """Return a field that changes the bytes of the output."""
    return setting(default, help, use, affects_output=True, **marks)


class Section:
    """The base class of a group of settings, which is a frozen dataclass.

    Code of this package constructs a section directly. Values of users go through the resolver, which
    converts them and calls `find_contradiction`.
    """

    job: ClassVar[Job | None] = None
    """The one job that reads this section, or None for both."""
    paths: ClassVar[tuple[str, ...]] = ()
    """The settings that name files or directories."""

    def find_contradiction(self) -> tuple[str, str] | None:
        """Return a setting that contradicts another and the reason, or None."""
        return None

    def find_problem(self) -> tuple[str, str] | None:
        """Return a setting with an invalid path or a contradiction and the reason, or None."""
        for key in self.paths:
            value = getattr(self, key)
            names = (value,) if isinstance(value, str) else value or ()
            if any(not name or "\0" in name for name in names):
                return key, "a name is empty or has a null character; give the path of a file or directory"
        return self.find_contradiction()

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        plain = {key: list(each) if isinstance(each, tuple) else each for key, each in vars(self).items()}
        return {key: each.to_dict() if isinstance(each, Section) else each for key, each in plain.items()}


def list_settings(section: type[Section]) -> dict[str, Setting]:
    """Return every setting of a section by its key, in order."""
    return {
        each.name: Setting(each.type, each.default, **{"only": section.job, **each.metadata})
        for each in fields(section)  # type: ignore[arg-type] # every section is a dataclass
    }


def check(annotation: Any, value: Any, *, strict: bool = False) -> Any:
    """Return a value converted to its annotation, or raise `ValueError` with what was expected.

    Files have types, so with `strict` a number in quotes is rejected.
    """
    with suppress(ValueError, TypeError, OverflowError):
        return _convert(annotation, value, strict=strict)
    raise ValueError(f"expected {describe_type(annotation)}")


def _convert(annotation: Any, value: Any, *, strict: bool) -> Any:
    """Return a value as its type. The functions of an annotation read it first, the last one before all."""
    plain, *rules = split_rules(annotation)
    for rule in reversed(rules):
        value = rule(value) if callable(rule) else value
    origin, parts = get_origin(plain), get_args(plain)
    if origin is tuple and isinstance(value, tuple):
        return tuple(_convert(parts[0], each, strict=strict) for each in value)
    if origin in {Union, types.UnionType}:
        # A text that is allowed as it is must not become a number.
        for part, as_it_is in [(part, True) for part in parts] + [(part, strict) for part in parts]:
            with suppress(ValueError, TypeError):
                return _convert(part, value, strict=as_it_is)
    elif value in parts if origin is Literal else isinstance(plain, type):
        value = value if parts or type(value) is plain else _read_as(plain, value, strict=strict)
        bounds = [rule for rule in rules if isinstance(rule, tuple)]
        if all(limit < value < inf or (sign == "≥" and limit == value) for sign, limit in bounds):
            return value
    raise ValueError


def _read_as(kind: type, value: Any, *, strict: bool) -> Any:
    """Return a value of another type as a number, a text or a switch."""
    if kind is float and hasattr(value, "__float__") and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, str):
        return str(value)
    if not strict and kind is bool and str(value).lower() in SWITCHES:
        return SWITCHES.index(str(value).lower()) % 2 == 1
    if not strict and kind in {int, float} and (isinstance(value, str) or value == int(value)):
        return kind(value)
    raise ValueError


def describe_type(annotation: Any) -> str:
    """Return a type in words: `"whole number > 0"`, `"fail, skip or replace"`."""
    plain, *rules = split_rules(annotation)
    if words := [rule for rule in rules if isinstance(rule, str)]:
        return words[0]
    parts = get_args(plain)
    if get_origin(plain) in {Union, types.UnionType}:
        return " or ".join(describe_type(part) for part in parts if part is not types.NoneType)
    if get_origin(plain) is Literal:
        return ", ".join(map(str, parts[:-1])) + f" or {parts[-1]}" if len(parts) > 1 else str(parts[0])
    if get_origin(plain) is tuple:
        return f"list of {describe_type(parts[0])}"
    word = {int: "whole number", str: "text", bool: "true or false", float: "number"}[plain]
    return word + "".join(" {} {}".format(*rule) for rule in rules if isinstance(rule, tuple))


def split_rules(annotation: Any) -> tuple[Any, ...]:
    """Return `(int, …)` for `Annotated[int, …]`, and any other annotation alone."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
