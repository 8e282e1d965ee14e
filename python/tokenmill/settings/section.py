"""Settings, and the base class of a group of settings, validated by pydantic."""

from __future__ import annotations

import types
from dataclasses import field, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

T = TypeVar("T")
Job = Literal["prepare", "train"]
Use = Literal["first", "often", "rare"]


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
    lets pydantic validate them and calls `find_contradiction`.
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
        values: dict[str, Any] = to_jsonable_python(self)
        return values


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
    try:
        return TypeAdapter(annotation).validate_python(value, strict=strict)
    except ValidationError:
        raise ValueError(f"expected {describe_type(annotation)}") from None


def describe_type(annotation: Any) -> str:
    """Return a type in words: `"whole number > 0"`, `"fail, skip or replace"`."""
    plain, *rules = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
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
    word += "".join(f" > {rule.gt}" for rule in rules if isinstance(rule, Gt))
    return word + "".join(f" ≥ {rule.ge}" for rule in rules if isinstance(rule, Ge))


def strip_rules(annotation: Any) -> Any:
    """Return `int` for `Annotated[int, …]`, and any other annotation as it is."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
