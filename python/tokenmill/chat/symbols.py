"""Strings that a template cannot look into unnoticed, which makes its work reusable, and safe.

A template is run once on symbols instead of the words of a conversation. A symbol is a `str` whose characters
are a placeholder; what a template asks of it (`'</think>' in content`, `content | trim`) is answered from the
real words and noted. The result is text with placeholders, so that the words of each message can be told
apart from what the template wrote, and a list of notes. Another conversation of the same structure for which
every question has the same answer has the same text, with its own words in it. What cannot be noted raises
`UntraceableError`, and that conversation is rendered from its real words.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Noncharacters: no text has a use for them, and a conversation that holds one is not traced.
MARK = "\ufdd0"
# Around what a `generation` block writes; taken out again before anybody sees the text.
BEGIN, END = "\ufdd1", "\ufdd2"
MARKS = (MARK, BEGIN, END)
_FIRST = 0xF0000
_MOST = 0xFFFF
PLACEHOLDER = re.compile(f"{MARK}([{chr(_FIRST)}-{chr(_FIRST + _MOST)}])")


def read_number(found: re.Match[str]) -> int:
    """The number of the value that a placeholder stands for."""
    return ord(found[1]) - _FIRST


class UntraceableError(Exception):
    """The template does something with a symbol that has no note."""


class Ref(NamedTuple):
    """A value of a trace, by its number."""

    number: int


class Note(NamedTuple):
    """One thing that was asked: a new value, or a question and its answer."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    asks: bool
    answer: Any = None


class Value(NamedTuple):
    """A real string, the messages whose words it has, and text of the template that went into it."""

    text: str
    owners: frozenset[int]
    template: tuple[str, ...] = ()
    leaves: frozenset[int] = frozenset()


class Tracer:
    """The values of one conversation, and the notes of what was asked of them."""

    def __init__(self, leaves: Iterable[tuple[str, int]]) -> None:
        """`leaves` are the strings of the conversation, each with the number of its message."""
        self.values = [
            Value(text, frozenset([owner]), leaves=frozenset([number]))
            for number, (text, owner) in enumerate(leaves)
        ]
        self.notes: list[Note] = []
        self._known: dict[tuple[Any, ...], Any] = {}

    def make_symbol(self, number: int) -> Symbol:
        """The symbol of one value."""
        return Symbol(self, (Ref(number),))

    def derive(self, function: Callable[..., str], *arguments: Any) -> Symbol:
        """A new value: `derive(str.strip, symbol)`."""
        given = self._to_plain(arguments)
        key = (function, given)
        if key not in self._known:
            parents = [self.values[each.number] for each in given if isinstance(each, Ref)]
            text = function(*self._to_real(given))
            owners = frozenset(owner for parent in parents for owner in parent.owners)
            written = tuple(part for parent in parents for part in parent.template)
            if function is join:
                written += tuple(part for part in given if isinstance(part, str))
            leaves = frozenset(leaf for parent in parents for leaf in parent.leaves)
            self._known[key] = len(self.values)
            if len(self.values) > _MOST:
                raise UntraceableError("too many strings")
            self.values.append(Value(text, owners, written, leaves))
            self.notes.append(Note(function, given, asks=False))
        return self.make_symbol(self._known[key])

    def ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer to a question: `ask(str.startswith, symbol, "<")`."""
        given = self._to_plain(arguments)
        key = (function, given)
        if key not in self._known:
            self._known[key] = function(*self._to_real(given))
            self.notes.append(Note(function, given, asks=True, answer=self._known[key]))
        return self._known[key]

    def join(self, parts: Iterable[Any]) -> str:
        """Some strings, symbols among them, end to end."""
        text = "".join([part if isinstance(part, str) else str(part) for part in parts])
        return self.wrap(text)

    def wrap(self, text: str) -> str:
        """A symbol for a text with placeholders in it; a plain text stays as it is."""
        if isinstance(text, Symbol) or MARK not in text:
            return text
        return Symbol(self, self.split_parts(text))

    def split_parts(self, text: str) -> tuple[str | Ref, ...]:
        """Text with placeholders taken apart; raises where a placeholder is not whole."""
        found: list[str | Ref] = []
        for place, part in enumerate(PLACEHOLDER.split(str.__str__(text))):
            if place % 2:
                found.append(Ref(ord(part) - _FIRST))
            elif MARK in part:
                raise UntraceableError("a string that was taken apart")
            elif part:
                found.append(part)
        return tuple(found)

    def _to_plain(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._to_plain_one(each) for each in arguments)

    def _to_plain_one(self, each: Any) -> Any:
        if isinstance(each, Symbol):
            return each.to_ref()
        if isinstance(each, str) and MARK in each:
            raise UntraceableError("a placeholder in a plain string")
        if isinstance(each, tuple) and any(isinstance(item, Symbol) for item in each):
            raise UntraceableError("a list of strings")
        return each

    def _to_real(self, given: tuple[Any, ...]) -> list[Any]:
        return [self.values[each.number].text if isinstance(each, Ref) else each for each in given]


def join(*parts: str) -> str:
    """Parts end to end, as a note."""
    return "".join(parts)


def take_slice(text: str, start: Any, stop: Any, step: Any) -> str:
    """`text[start:stop:step]`, as a note."""
    return text[start:stop:step]


def take_part(text: str, method: str, place: int, *arguments: Any) -> str:
    """One part of `text.split(...)` or `text.rsplit(...)`, as a note."""
    return str(getattr(text, method)(*arguments)[place])


def count_parts(text: str, method: str, *arguments: Any) -> int:
    """How many parts `text.split(...)` or `text.rsplit(...)` has, as a note."""
    return len(getattr(text, method)(*arguments))


def has_index(text: str, place: int) -> bool:
    """Whether `text[place]` is there, as a note."""
    return -len(text) <= place < len(text)


class Symbol(str):  # noqa: PLW1641 - its hash is refused below
    """Characters that stand for words; see the module."""

    __slots__ = ("_parts", "_ref", "_tracer")

    def __new__(cls, tracer: Tracer, parts: tuple[str | Ref, ...]) -> Self:
        """Parts are plain text and values, end to end."""
        text = "".join(part if isinstance(part, str) else MARK + chr(_FIRST + part.number) for part in parts)
        made = str.__new__(cls, text)
        made._tracer = tracer  # noqa: SLF001 - our own, just made
        made._parts = parts  # noqa: SLF001
        made._ref = parts[0] if len(parts) == 1 and isinstance(parts[0], Ref) else None  # noqa: SLF001
        return made

    _tracer: Tracer
    _parts: tuple[str | Ref, ...]
    _ref: Ref | None

    def to_ref(self) -> Ref:
        """The value that this is, which for several parts is noted now."""
        if self._ref is None:
            make = self._tracer.make_symbol
            parts = [make(part.number) if isinstance(part, Ref) else part for part in self._parts]
            whole = self._tracer.derive(join, *parts)
            self._ref = whole.to_ref()
        return self._ref

    def __str__(self) -> str:
        return self

    def __bool__(self) -> bool:
        return any(isinstance(part, str) for part in self._parts) or bool(self._tracer.ask(bool, self))

    def __len__(self) -> int:
        return int(self._tracer.ask(len, self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return False
        return bool(self._tracer.ask(operator.eq, self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __contains__(self, part: object) -> bool:
        return bool(self._tracer.ask(operator.contains, self, part))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, str):
            return NotImplemented
        return self._tracer.join([self, other])

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, str):
            return NotImplemented
        return self._tracer.join([other, self])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._tracer.derive(take_slice, self, key.start, key.stop, key.step)
        if not isinstance(key, int):
            raise TypeError("string indices must be integers")
        if not self._tracer.ask(has_index, self, key):
            raise IndexError("string index out of range")
        return self._tracer.derive(operator.getitem, self, key)


def _make_noted(name: str, note: Callable[..., Any]) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: Symbol, *arguments: Any) -> Any:
        return note(self._tracer, plain, self, *arguments)

    return method


def _make_split(name: str) -> Callable[..., Any]:
    def method(self: Symbol, *arguments: Any) -> list[Any]:
        count = self._tracer.ask(count_parts, self, name, *arguments)
        return [self._tracer.derive(take_part, self, name, place, *arguments) for place in range(count)]

    return method


def _make_refusal(name: str) -> Callable[..., Any]:
    def method(_self: Symbol, *_arguments: Any, **_options: Any) -> NoReturn:
        raise UntraceableError(f"str.{name}")

    return method


_DERIVED = (
    *("strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "swapcase"),
    *("replace", "removeprefix", "removesuffix", "expandtabs"),
)
_ASKED = (
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "isspace", "isdigit", "isalpha"),
    *("isalnum", "isupper", "islower", "isnumeric", "isdecimal", "istitle"),
)
# What Python itself needs of an object, and what looks at no character.
_LEFT = (
    *("__class__", "__new__", "__init__", "__doc__", "__getattribute__", "__setattr__", "__dir__"),
    *("__delattr__", "__init_subclass__", "__subclasshook__", "__reduce__", "__sizeof__", "__getstate__"),
)
for _name in _DERIVED:
    setattr(Symbol, _name, _make_noted(_name, Tracer.derive))
for _name in _ASKED:
    setattr(Symbol, _name, _make_noted(_name, Tracer.ask))
for _name in ("split", "rsplit"):
    setattr(Symbol, _name, _make_split(_name))
_OWN = {*vars(Symbol), *_LEFT}
for _name in dir(str):
    if _name not in _OWN:
        setattr(Symbol, _name, _make_refusal(_name))
Symbol.__hash__ = _make_refusal("__hash__")  # type: ignore[method-assign]
