"""Strings that carry the origin of their characters through a template.

A traced render gives the template `Traced` strings in place of the strings of a record. They have the same
characters and behave the same, and each derived string records which part came from which message.
A result that cannot be attributed exactly gets a `Blend` of all operands.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

# The parts of a message. A source of data is `len(PARTS)` times the message index plus the part index.
PARTS = ("content", "reasoning", "tool_calls", "other")
_PART_OF = {"content": 0, "reasoning_content": 1, "thinking": 1, "reasoning": 1, "tool_calls": 2}
# The borders of a `generation` block, which are pieces without characters.
BLOCK_START, BLOCK_END = "block start", "block end"
# Values under these keys are identifiers. They are data, but not the words of a message.
IDENTIFIERS = frozenset(("type", "id", "tool_call_id"))


class UntraceableError(Exception):
    """The template uses a string in a way that cannot be traced."""


class Origin(NamedTuple):
    """The origin of data. The result of an operation has the origins of all operands."""

    # Parts of messages; none for other data of the record.
    sources: frozenset[int] = frozenset()
    # Operands that are strings of the template; `has_text` is True if one is text and not an argument.
    literals: frozenset[str] = frozenset()
    has_text: bool = False


Piece = tuple[int, Origin | str | None]  # a length, and data, a border or None for the template


class Traced(str):
    """A string whose `pieces` give the length and the origin of its parts, in order."""

    __slots__ = ("pieces",)

    pieces: tuple[Piece, ...]

    def __new__(cls, text: str, pieces: tuple[Piece, ...] | None = None) -> Self:
        """Create a string; raise `UntraceableError` if other code builds one without pieces."""
        if pieces is None:
            raise UntraceableError("a string built by another function")
        made = super().__new__(cls, text)
        made.pieces = pieces
        return made

    def __str__(self) -> str:
        return self

    def __add__(self, other: Any) -> Any:
        return join([self, other]) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return join([other, self]) if isinstance(other, str) else NotImplemented

    def __iter__(self) -> Iterator[str]:
        return (self.cut(place, place + 1) for place in range(len(self)))

    def __getitem__(self, key: Any) -> str:
        text = super().__getitem__(key)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            return self.cut(start, max(start, stop)) if step == 1 else blend(text, self)
        return self.cut(key % len(self), key % len(self) + 1)

    def cut(self, start: int, stop: int, *, keep_empty: bool = False) -> str:
        """Return the characters `[start, stop)`; `keep_empty` keeps pieces without characters."""
        pieces: list[Piece] = []
        at = 0
        for length, origin in self.pieces:
            low, high = max(at, start), min(at + length, stop)
            if low < high or keep_empty or (length == 0 and start <= at <= stop):
                pieces.append((max(high - low, 0), origin))
            at += length
        if start >= stop and not any(isinstance(origin, Origin) for _, origin in pieces):
            # An empty string keeps the origin of its message.
            pieces += dict.fromkeys((0, origin) for _, origin in self.pieces if isinstance(origin, Origin))
        return Traced(str.__getitem__(self, slice(start, stop)), tuple(pieces))


def _make_strip(name: str) -> Any:
    def method(self: Traced, chars: str | None = None) -> str:
        start = 0 if name == "rstrip" else len(self) - len(str.lstrip(self, chars))
        stop = len(self) if name == "lstrip" else len(str.rstrip(self, chars))
        return self.cut(start, max(start, stop), keep_empty=True)

    return method


def _make_split(name: str) -> Any:
    plain = getattr(str, name)

    def method(self: Traced, sep: str | None = None, maxsplit: Any = -1) -> list[str]:
        parts: list[str] = plain(self, sep, maxsplit)
        if sep is None:
            return list(blend(parts, self))
        found, at = [], 0
        for part in parts:
            found.append(self.cut(at, at + len(part)))
            at += len(part) + len(sep)
        return found

    return method


for _name in ("strip", "lstrip", "rstrip"):
    setattr(Traced, _name, _make_strip(_name))
for _name in ("split", "rsplit"):
    setattr(Traced, _name, _make_split(_name))


def join(parts: Iterable[str], separator: str = "") -> str:
    """Return the concatenated parts, traced if one of them is traced."""
    held = list(parts)
    if separator:
        held = [each for part in held for each in (separator, part)][1:]
    text = "".join(held)
    pieces: list[Piece] = []
    for part in held:
        if type(part) is Traced:
            pieces += part.pieces
        elif part:
            pieces.append((len(part), None))
    is_traced = any(type(part) is Traced for part in held)
    return Traced(text, tuple(pieces)) if is_traced else text


def walk_strings(value: Any, *, words_only: bool = False) -> Iterator[str]:
    """Yield the strings in a value; `words_only` leaves out keys and identifiers."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if not words_only:
                yield from walk_strings(key)
            if not words_only or key not in IDENTIFIERS:
                yield from walk_strings(item, words_only=words_only)
    elif isinstance(value, list | tuple | KeysView | ValuesView | ItemsView):
        for item in value:
            yield from walk_strings(item, words_only=words_only)


def blend(result: Any, *values: Any) -> Any:
    """Return the result of an operation on some values, traced to all of them if one is `Traced`."""
    strings = list(walk_strings(values))
    if not any(type(each) is Traced for each in strings):
        return result
    sources: set[int] = set()
    literals: set[str] = set()
    has_text = False
    for each in strings:
        at, is_traced = 0, isinstance(each, Traced)
        for length, origin in each.pieces if isinstance(each, Traced) else ((len(each), None),):
            text = str.__getitem__(each, slice(at, at + length))
            at += length
            if isinstance(origin, Origin):
                sources |= origin.sources
                literals |= origin.literals
                has_text |= origin.has_text
            elif origin is not None:
                raise UntraceableError("a generation block that is changed after it is written")
            elif text:
                literals.add(text)
                has_text |= is_traced and bool(text.strip())
    return _attribute(result, Origin(frozenset(sources), frozenset(literals), has_text))


def _attribute(result: Any, origin: Origin) -> Any:
    if isinstance(result, str):
        return Traced(str.__str__(result), ((len(result), origin),))
    if isinstance(result, list | tuple):
        return type(result)([_attribute(item, origin) for item in result])
    if isinstance(result, Iterator):
        return (_attribute(item, origin) for item in result)
    if isinstance(result, bytes):
        raise UntraceableError("a string that is encoded")
    return result


def trace_message(message: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a message with `Traced` strings; the role stays plain, as templates put it in special tokens."""
    origins = [Origin(frozenset([len(PARTS) * number + part])) for part in range(len(PARTS))]
    return {
        key: item if key == "role" else _trace_item(key, item, origins[_PART_OF.get(key, 3)])
        for key, item in message.items()
    }


def trace_value(value: Any, origin: Origin) -> Any:
    """Return a value with `Traced` strings, keys included."""
    if isinstance(value, str):
        return Traced(value, ((len(value), origin),))
    if isinstance(value, dict):
        return {trace_value(key, origin): _trace_item(key, item, origin) for key, item in value.items()}
    return [trace_value(item, origin) for item in value] if isinstance(value, list) else value


def _trace_item(key: str, item: Any, origin: Origin) -> Any:
    return trace_value(item, Origin() if key in IDENTIFIERS and isinstance(item, str) else origin)


class Word(NamedTuple):
    """Characters `[start, end)` that are data, with their origin and position in the template."""

    start: int
    end: int
    origin: Origin
    owners: frozenset[int]  # the messages of the origin
    # The message that the template's loop was at, and the number of the `generation` block around it.
    message: int | None
    block: int | None


@dataclass
class Layout:
    """A traced text, its data in order, and where the output for each message ends."""

    text: str
    words: list[Word] = field(default_factory=list)
    # The start and end of `generation` blocks, and the message that the template's loop was at.
    blocks: list[tuple[int, int, int | None]] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)


def lay_out(parts: list[tuple[str, int | None]]) -> Layout:
    """Return the layout of a template's output, given in parts with the message its loop was at."""
    layout = Layout("".join(part for part, _ in parts))
    opened: list[tuple[int, int]] = []
    at = 0
    for part, message in parts:
        for length, origin in part.pieces if type(part) is Traced else ((len(part), None),):
            if isinstance(origin, Origin):
                owners = frozenset(source // len(PARTS) for source in origin.sources)
                block = opened[-1][0] if opened else None
                layout.words.append(Word(at, at + length, origin, owners, message, block))
            elif origin == BLOCK_START:
                opened.append((len(layout.blocks), at))
                layout.blocks.append((at, at, message))
            elif origin == BLOCK_END:
                if not opened:
                    raise UntraceableError("a generation block that is taken apart")
                number, start = opened.pop()
                layout.blocks[number] = (start, at, message)
            at += length
        if message is not None and part.strip():
            layout.ends[message] = at
    if opened:
        raise UntraceableError("a generation block that is taken apart")
    return layout
