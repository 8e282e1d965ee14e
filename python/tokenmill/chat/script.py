"""What a template does for one structure, as a tree of questions: a text without running the template.

Each node makes some values and asks one question; its answers lead on, and at the end stands the text. A
conversation whose answers lead nowhere is traced, and its path is added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenmill.chat.symbols import Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenmill.chat.symbols import Note
    from tokenmill.chat.turns import Turn

# A question with more answers than this (the length of a text) is not worth a tree.
MOST_ANSWERS = 256


class Place(NamedTuple):
    """A byte of a text: the one `offset` bytes into this part of it."""

    part: int
    offset: int


class LearnedStretch(NamedTuple):
    """Bytes that are learned, from a message of this role."""

    start: int
    end: int
    role: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as text: what of it is learned, and where the words of messages stand."""

    text: bytes
    learned: tuple[LearnedStretch, ...]
    words: tuple[tuple[int, int], ...]
    # How many special tokens the template wrote itself, whether none can arise where its text meets words,
    # and whether every learned turn ends with one.
    specials: int = 0
    safe: bool = True
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A text with holes: parts are bytes that the template wrote, or the numbers of values."""

    parts: tuple[bytes | int, ...]
    learned: tuple[tuple[Place, Place, str], ...]
    specials: int
    safe: bool
    closed: bool

    def fill(self, values: Sequence[str]) -> Rendered:
        """The text of one conversation; raises `UnicodeEncodeError` for what UTF-8 cannot hold."""
        parts = [values[part].encode() if type(part) is int else part for part in self.parts]
        starts, place, words = [], 0, []
        for part, kind in zip(parts, self.parts, strict=True):
            starts.append(place)
            end = place + len(part)  # type: ignore[arg-type] # numbers are filled in by now
            if type(kind) is int:
                words.append((place, end))
            place = end
        starts.append(place)
        learned = tuple(
            LearnedStretch(starts[start.part] + start.offset, starts[end.part] + end.offset, role)
            for start, end, role in self.learned
        )
        text = b"".join(parts)  # type: ignore[arg-type]
        return Rendered(text, learned, tuple(words), self.specials, self.safe, self.closed)


def place_turns(
    parts: Sequence[str | Ref], turns: Sequence[Turn], roles: Sequence[str]
) -> tuple[tuple[Place, Place, str], ...]:
    """Turns in characters of a text with placeholders, as places in its parts."""
    return tuple(
        (_place(parts, turn.start, opening=True), _place(parts, turn.end, opening=False), roles[turn.message])
        for turn in turns
    )


def _place(parts: Sequence[str | Ref], character: int, *, opening: bool) -> Place:
    """The part that a character is in; between two, the later for an opening and the earlier for an end."""
    at = 0
    for number, part in enumerate(parts):
        length = 2 if isinstance(part, Ref) else len(part)
        inside = character - at
        if inside < length or (inside == length and not opening):
            if isinstance(part, str):
                return Place(number, len(part[:inside].encode()))
            # A hole is taken whole; its end is the start of the part after it.
            return Place(number, 0) if inside == 0 else Place(number + 1, 0)
        at += length
    return Place(len(parts), 0)


@dataclass(slots=True)
class _Node:
    makes: list[tuple[Callable[..., Any], tuple[Any, ...]]] = field(default_factory=list)
    question: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
    answers: dict[Any, _Node] = field(default_factory=dict)
    end: Skeleton | None = None


class Script:
    """All that is known of one structure."""

    def __init__(self) -> None:
        self._root = _Node()
        self.nodes = 1

    def run(self, values: list[str]) -> Rendered | None:
        """The text for these words, a list that grows by what is made of them; None if not known yet."""
        node: _Node | None = self._root
        while node is not None:
            for function, arguments in node.makes:
                values.append(function(*_fill(arguments, values)))
            if node.end is not None:
                return node.end.fill(values)
            if node.question is None:
                return None
            function, arguments = node.question
            node = node.answers.get(function(*_fill(arguments, values)))
        return None

    def add(self, notes: Sequence[Note], end: Skeleton) -> None:
        """Remember the path of one conversation."""
        node, fresh = self._root, self._root.question is None and self._root.end is None
        for note in notes:
            if not note.asks:
                if fresh:
                    node.makes.append((note.function, note.arguments))
                continue
            if fresh:
                node.question = (note.function, note.arguments)
            after = node.answers.get(note.answer)
            fresh = after is None
            if after is None:
                if len(node.answers) >= MOST_ANSWERS:
                    return
                after = node.answers[note.answer] = _Node()
                self.nodes += 1
            node = after
        node.end = end


def _fill(arguments: tuple[Any, ...], values: list[str]) -> list[Any]:
    return [values[each.number] if type(each) is Ref else each for each in arguments]
