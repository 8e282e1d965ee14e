"""Which stretch of a rendered conversation a message is, proved from what its template writes for less of it.

A template says how it opens an answer (the generation prompt) and how it closes one (what follows the last
words of a conversation that ends there). A turn is learned from the end of its opening up to and including
the first special token after its words. Both must be found again in the whole, with the words of that message
and no other between them; otherwise `UnprovedError` is raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenmill.chat.symbols import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.chat.renders import Render


class UnprovedError(Exception):
    """It cannot be shown which part of a text is a message."""


class Turn(NamedTuple):
    """Characters `[start, end)` of the text, learned from the message of that number."""

    start: int
    end: int
    message: int


class Span(NamedTuple):
    """Where words of some messages stand in a text."""

    start: int
    end: int
    owners: frozenset[int]


@dataclass(frozen=True)
class TurnFinder:
    """`ends` matches the special tokens of the tokenizer; `eos` is the one that ends a text, if any is."""

    ends: re.Pattern[str]
    eos: str | None = None

    def find(self, whole: str, count: int, wanted: Sequence[int], render: Render) -> list[Turn]:
        """The turns of the messages that are wanted, of `count`; one that writes nothing has none."""
        spans = render.find_spans(whole)
        turns = []
        for number in wanted:
            if any(number in span.owners for span in spans):
                ending = None if number == count - 1 else render(number + 1)
                turns.append(self._find_turn(_Message(whole, number, spans, ending), render))
        for turn in turns:
            _check_owner(turn, spans)
        return turns

    def _find_turn(self, message: _Message, render: Render) -> Turn:
        own, after = message.find_own(render)
        start, end = own[0].start, own[-1].end
        whole, number = message.whole, message.number
        before = max((span.end for span in message.spans if span.end <= start), default=0)
        begin = start
        for opening in self._list_openings(number, render):
            if (at := whole.rfind(opening, before, start)) >= 0:
                begin = at + len(opening)
                break
        closing = self._find_closing(message, own, render)
        if not whole.startswith(closing, end, after):
            other = self._find_other_closing(closing, whole[end:after])
            if other is None:
                raise UnprovedError(
                    f"message {number + 1} continues with {whole[end : min(after, end + 40)]!r}, and ends "
                    "differently when it is the last"
                )
            closing = other
        return Turn(begin, end + len(closing), number)

    def _list_openings(self, number: int, render: Render) -> list[str]:
        """What the template writes to have an answer begun, and less of it, to the end of a line or token."""
        base, prompted = render(number), render(number, prompt=True)
        if base is None or prompted is None or not prompted.startswith(base):
            return []
        prompt = prompted[len(base) :]
        cuts = {found.end() for found in self.ends.finditer(prompt)}
        cuts |= {place + 1 for place, letter in enumerate(prompt) if letter == "\n"}
        shorter = [prompt[:cut] for cut in sorted(cuts, reverse=True) if cut < len(prompt)]
        return [prompt, *shorter] if prompt else []

    def _find_closing(self, message: _Message, own: list[Span], render: Render) -> str:
        """What stands between the words of a message and the end of its end token."""
        text, end = message.whole, own[-1].end
        if message.ending is not None:
            mine = [span for span in render.find_spans(message.ending) if message.number in span.owners]
            if mine:
                text, end = message.ending, mine[-1].end
        return self._take_end(text[end:])

    def _take_end(self, tail: str) -> str:
        """Up to the first special token, and on to the one that ends a text if it follows at once."""
        found = self.ends.search(tail)
        if found is None:
            # Without an end token, what the template closes its own brackets with is the model's to write.
            return tail.rstrip()
        stop = found.end()
        while (more := self.ends.match(tail, stop)) is not None:
            stop = more.end()
            if more[0] == self.eos:
                return tail[:stop]
        return tail[: found.end()]

    def _find_other_closing(self, closing: str, rest: str) -> str | None:
        """Another end token behind the same text, where a template has one for the last turn only."""
        first, other = self.ends.search(closing), self.ends.search(rest)
        if first is None or other is None or closing[: first.start()] != rest[: other.start()]:
            return None
        return self._take_end(rest)


@dataclass(frozen=True)
class _Message:
    """One message in a whole text, and the text that ends with it."""

    whole: str
    number: int
    spans: list[Span]
    ending: str | None

    def find_own(self, render: Render) -> tuple[list[Span], int]:
        """The spans of its turn, and where what follows begins: others may repeat a name from it later on."""
        mine = [span for span in self.spans if self.number in span.owners]
        if self.ending is not None:
            count = sum(self.number in span.owners for span in render.find_spans(self.ending))
            mine = mine[: count or None]
        later = [span.start for span in self.spans if span.start >= mine[-1].end]
        return mine, min(later, default=len(self.whole))


def _check_owner(turn: Turn, spans: list[Span]) -> None:
    for span in spans:
        if span.start < turn.end and span.end > turn.start and span.owners != {turn.message}:
            others = ", ".join(str(owner + 1) for owner in sorted(span.owners))
            raise UnprovedError(f"message {turn.message + 1} is mixed with words of message {others}")


def take_blocks(text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without the marks of `generation` blocks, and what was between them."""
    text = str.__str__(text)  # of a symbol, its own characters
    if BEGIN not in text:
        return text, []
    parts: list[str] = []
    blocks: list[tuple[int, int]] = []
    opened: list[int] = []
    place = 0
    for part in re.split(f"([{BEGIN}{END}])", text):
        if part == BEGIN:
            opened.append(place)
        elif part == END:
            blocks.append((opened.pop(), place))
        else:
            parts.append(part)
            place += len(part)
    return "".join(parts), sorted(blocks)


def find_turns_in_blocks(
    blocks: list[tuple[int, int]], spans: list[Span], wanted: Sequence[int], answers: Sequence[int]
) -> list[Turn]:
    """The blocks of the messages that are wanted, where every word of those is in one and no other's is."""
    turns = []
    for nth, (start, end) in enumerate(blocks):
        owners = {owner for span in spans if span.start < end and span.end > start for owner in span.owners}
        if len(owners) > 1 or owners - set(answers):
            shown = ", ".join(str(owner + 1) for owner in sorted(owners))
            raise UnprovedError(f"a generation block of the template contains words of message {shown}")
        message = owners.pop() if owners else (answers[nth] if len(blocks) == len(answers) else answers[-1])
        if message in wanted:
            turns.append(Turn(start, end, message))
    written = {owner for span in spans for owner in span.owners} & set(wanted)
    for message in sorted(written - {turn.message for turn in turns}):
        raise UnprovedError(f"no generation block of the template contains words of message {message + 1}")
    return turns
