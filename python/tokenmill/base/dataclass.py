"""`dataclass` that compiles nothing: the same fields, with methods that all such classes share.

The standard one writes and compiles up to seven functions for each class, most of a millisecond. With seventy
classes that was 48 of the 180 ms that a command took to start. `field`, `fields`, `replace` and `asdict` of
`dataclasses` work on these classes as on any other. Making an instance takes some microseconds instead of
one, which is nothing here: no class of ours is made for each document or token.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    T = TypeVar("T")


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(cls: Any = None, /, *, frozen: bool = False, slots: bool = False) -> Any:
    """As `dataclasses.dataclass` with these two options."""

    def decorate(cls: Any) -> Any:
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        for name, method in _METHODS.items():
            _attach(made, name, method)
        _attach(made, "__hash__", _hash if frozen else None)
        if frozen:
            made.__setattr__ = made.__delattr__ = _refuse  # type: ignore[assignment]
            if slots:
                # Those of `object` would set attributes one by one.
                _attach(made, "__getstate__", _values)
                _attach(made, "__setstate__", _restore)
        return made

    return decorate if cls is None else decorate(cls)


def _attach(cls: Any, name: str, method: Any) -> None:
    """What a class says itself counts; of `__hash__`, Python says None where a class has an `__eq__`."""
    if cls.__dict__.get(name) is None:
        setattr(cls, name, method)


def _init(self: Any, *args: Any, **given: Any) -> None:
    put = object.__setattr__
    places = iter(args)
    for field in dataclasses.fields(self):
        name = field.name
        if field.init and (value := next(places, MISSING)) is not MISSING:
            if name in given:
                raise TypeError(f"{type(self).__name__}() got {name!r} twice")
            put(self, name, value)
        elif field.init and name in given:
            put(self, name, given.pop(name))
        elif field.default is not MISSING:
            put(self, name, field.default)
        elif field.default_factory is not MISSING:
            put(self, name, field.default_factory())
        elif field.init:
            raise TypeError(f"{type(self).__name__}() misses the argument {name!r}")
    if given or next(places, MISSING) is not MISSING:
        raise TypeError(f"{type(self).__name__}() got more arguments than it has: {[*given] or args!r}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _repr(self: Any) -> str:
    names = [field.name for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _refuse(self: Any, name: str, *_value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot change {name!r} of {type(self).__name__}")


def _values(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, values: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), values, strict=True):
        object.__setattr__(self, field.name, value)


_METHODS = {"__init__": _init, "__repr__": _repr, "__eq__": _eq}
