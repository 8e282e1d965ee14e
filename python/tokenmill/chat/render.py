"""Render conversations to text and determine the trained spans.

The text is the template's output for the original messages. A second, traced render maps characters to
messages, and must produce the same text. A turn begins after the generation prompt, or at the first word of
its message. It ends after the first special token that the template wrote behind the message. If the template
has `generation` blocks, these are the turns.
"""

from __future__ import annotations

import json
import re
from bisect import bisect, bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

from tokenmill.chat.records import ANSWERER, Conversation, RecordError, RecordShape, read_conversation
from tokenmill.chat.template import ChatTemplate
from tokenmill.chat.tracing import PARTS, Layout, Word, walk_strings
from tokenmill.errors import ConfigError

Span = tuple[int, int]

TURNS = (ANSWERER, "last", "completion", "all")


class TrainedSpan(NamedTuple):
    """Characters `[start, end)` that are trained on, the role of their message and its number."""

    start: int
    end: int
    role: str
    message: int


@dataclass(frozen=True)
class Rendered:
    """A conversation as text; all spans are in characters."""

    text: str
    trained: list[TrainedSpan]
    specials: list[Span]  # the special tokens of the template
    strings: int  # the number of other special-token strings
    neutral: str  # a text of the same length without these
    blank: bool  # every trained turn is white space
    has_blocks: bool  # the template marks its turns with `generation` blocks
    left_out: Counter[str]  # parts of messages that the template does not write, by name

    @property
    def closed(self) -> bool:
        """True if every trained turn ends with a special token."""
        ends = {end for _, end in self.specials}
        return all(len(self.text[: turn.end].rstrip()) in ends for turn in self.trained)


def _list_spans(pattern: re.Pattern[str], text: str, *within: int) -> list[Span]:
    return [match.span() for match in pattern.finditer(text, *within)]


def _refuse(detail: str) -> NoReturn:
    raise RecordError("unproved_mask", f"the trained text cannot be determined: {detail}")


@dataclass
class ChatRenderer:
    """Renders the records of a job. Its result depends on the record alone."""

    shape: RecordShape
    template: ChatTemplate
    train_on: str
    strings: tuple[str, ...]
    # True to replace lone surrogates; otherwise such a record is rejected.
    replaces: bool = False
    # True to make a document of each trained message, which ends with it.
    one_sample_per_answer: bool = False

    def __post_init__(self) -> None:
        """Raise `ConfigError` for an invalid setting."""
        words = [word.strip() for word in self.train_on.split(",")]
        who = [word for word in words if word in TURNS]
        parts = {word for word in words if word in PARTS[:-1]}
        if len(who) > 1 or len(who) + len(parts) < len(words) or (parts and who == ["all"]):
            raise ConfigError(
                f"train_on is {self.train_on!r}, expected one of {', '.join(TURNS)}, or parts of answers "
                f"({', '.join(PARTS[:-1])}) separated by commas, such as 'last,tool_calls'"
            )
        if self.one_sample_per_answer and who == ["all"]:
            raise ConfigError("one_sample_per_answer trains on answers; train_on is 'all'")
        self._who = who[0] if who else ANSWERER
        self._parts = parts and parts | {PARTS[-1]}
        # Longer strings first, so that the longest one matches.
        ordered = sorted(self.strings, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered)) or "(?!)")

    def render(self, data: str | bytes) -> list[Rendered]:
        """Return the documents of one JSON record; raises `RecordError`."""
        try:
            if self.replaces:
                text = json.dumps(json.loads(data), ensure_ascii=False)
                data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            conversation = read_conversation(data, self.shape)
            samples = [
                replace(
                    conversation,
                    messages=conversation.messages[: last + 1],
                    flags={number: number == last for number in range(last + 1)},
                )
                for last in (self._choose(conversation) if self.one_sample_per_answer else ())
            ]
            return [self.render_conversation(each) for each in samples or [conversation]]
        except RecursionError:
            raise RecordError("bad_messages", "the record is nested too deeply") from None

    def _choose(self, conversation: Conversation) -> list[int]:
        """Return the indexes of the messages that are trained on; a flag of a message takes precedence."""
        roles = [message["role"] for message in conversation.messages]
        chosen = [number for number, role in enumerate(roles) if role == ANSWERER]
        if self._who == "last":
            chosen = chosen[-1:]
        if self._who == "completion":
            start = conversation.answered
            if start is None:
                start = max((number + 1 for number, role in enumerate(roles) if role == "user"), default=0)
            chosen = [number for number in chosen if number >= start]
        flags = conversation.flags
        return sorted(number for number in {*chosen, *flags} if flags.get(number, True))

    def render_conversation(self, conversation: Conversation) -> Rendered:
        """Render a conversation; raises `RecordError`."""
        messages = conversation.messages = self.template.adapt(conversation.messages)
        for role in {message["role"] for message in messages}:
            if self._pattern.search(role) or set(role) & set("<>|｜"):  # noqa: RUF001
                detail = f"the role {role[:80]!r} contains a special token or part of one"
                raise RecordError("special_string", detail)
        layout = self.template.trace(messages, conversation.variables)
        text, pattern = layout.text, self._pattern
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RecordError("lone_surrogate", "a lone surrogate, which is not a character") from None
        wanted = self._choose(conversation)
        left_out = self._check_written(conversation, layout, set(wanted))
        turns = self._find_turns(conversation, layout, wanted)
        # A special-token string is text in data, except in data that is mixed with tokens of the template.
        pure = [word for word in layout.words if not any(map(pattern.search, word.origin.literals))]
        if len(pure) < len(layout.words) and any(
            map(pattern.search, walk_strings([messages, conversation.variables]))
        ):
            raise RecordError(
                "special_string",
                "the record contains a special token, and this template mixes it with its own text in a way "
                "that the two cannot be distinguished",
            )
        data = [(word.start, word.end) for word in pure if word.start < word.end]
        gaps = zip([0, *(end for _, end in data)], [*(start for start, _ in data), len(text)], strict=True)
        own = [span for gap in gaps for span in _list_spans(pattern, text, *gap)]
        strings = len(set(_list_spans(pattern, text)).difference(own))
        said = {turn.message for turn in turns}
        spoken = [word for word in layout.words if self._who == "all" or word.owners & said]
        return Rendered(
            text,
            turns,
            own,
            strings,
            _neutralize(text, data, pattern) if strings else text,
            blank=not any(text[word.start : word.end].strip() for word in spoken),
            has_blocks=bool(layout.blocks),
            left_out=left_out,
        )

    def _find_turns(self, conversation: Conversation, layout: Layout, wanted: list[int]) -> list[TrainedSpan]:
        whole = self._who == "all"
        if whole:
            wanted = [number for number, flag in conversation.flags.items() if not flag]
        answers = {n for n, message in enumerate(conversation.messages) if message["role"] == ANSWERER}
        marked = answers.intersection(wanted) if layout.blocks else set()
        turns = _find_turns_in_blocks(layout, marked, sorted(answers)) if marked else []
        finder = _TurnFinder(layout, conversation, self.template, self._pattern)
        turns += finder.find([number for number in wanted if number not in marked])
        turns.sort()
        if whole:
            edges = [0, *(place for turn in turns for place in turn[:2]), len(layout.text)]
            return [TrainedSpan(*edge, "all", 0) for edge in zip(edges[::2], edges[1::2], strict=True)]
        return [span for turn in turns for span in self._select_parts(turn, layout)]

    def _select_parts(self, turn: TrainedSpan, layout: Layout) -> list[TrainedSpan]:
        """Cut an answer into the spans of its chosen parts.

        Template text between two parts belongs to the later part, and the closing text to the last part.
        """
        if not self._parts or turn.role != ANSWERER:
            return [turn]
        first = bisect_left(layout.words, turn.start, key=lambda word: word.start)
        last = bisect(layout.words, turn.end, key=lambda word: word.start)
        words = [word for word in layout.words[first:last] if word.owners and word.start < word.end]
        spans: list[TrainedSpan] = []
        at = turn.start
        for word in words:
            end = turn.end if word is words[-1] else word.end
            chosen = {PARTS[source % len(PARTS)] in self._parts for source in word.origin.sources}
            if len(chosen) > 1:
                _refuse(f"the template mixes parts of message {turn.message + 1}")
            if chosen == {True}:
                start = spans.pop().start if spans and spans[-1].end == at else at
                spans.append(turn._replace(start=start, end=end))
            at = end
        return spans

    def _check_written(self, conversation: Conversation, layout: Layout, wanted: set[int]) -> Counter[str]:
        """Count the parts of messages that are missing in the text; raise if a whole message is left out."""
        shown = [word for word in layout.words if layout.text[word.start : word.end].strip()]
        written = {source for word in shown for source in word.origin.sources}
        seen = {owner for word in layout.words for owner in word.owners}
        left_out: Counter[str] = Counter()
        for number, message in enumerate(conversation.messages):
            values = enumerate(message.get(key) for key in ("content", "reasoning_content", "tool_calls"))
            present = [n for n, value in values if any(map(str.strip, walk_strings(value, words_only=True)))]
            lost = [PARTS[part] for part in present if len(PARTS) * number + part not in written]
            who = f"message {number + 1}, whose role is {message['role']!r}"
            if number not in seen and "content" in lost:
                detail = f"the chat template {self.template.name} leaves out {who}"
                raise RecordError("role_left_out", detail)
            if lost and len(lost) == len(present) and number in wanted:
                raise RecordError(
                    "content_left_out",
                    f"the chat template {self.template.name} writes nothing of {who}: it leaves out "
                    f"{' and '.join(lost)}; give a template that writes them with `chat_template`",
                )
            # With one sample per answer, samples repeat earlier messages; count only the trained one.
            if not self.one_sample_per_answer or number in wanted:
                left_out.update(lost)
        return left_out


def _neutralize(text: str, data: list[Span], pattern: re.Pattern[str]) -> str:
    """Return a text of the same length without special-token strings in the data."""
    is_data = bytearray(len(text))
    for start, end in data:
        is_data[start:end] = b"\1" * (end - start)
    letters = list(text)
    while inside := [span for span in _list_spans(pattern, "".join(letters)) if any(is_data[slice(*span)])]:
        for place in (place for span in inside for place in range(*span) if is_data[place]):
            letters[place] = "x"
    return "".join(letters)


@dataclass
class _TurnFinder:
    """Finds the turns of one conversation whose template has no `generation` blocks."""

    layout: Layout
    conversation: Conversation
    template: ChatTemplate
    pattern: re.Pattern[str]
    # The generation prompt is rendered once for each kind of message in front of an answer.
    _prompts: dict[Any, list[str]] = field(default_factory=dict)

    def find(self, wanted: Sequence[int]) -> list[TrainedSpan]:
        """Return the turns of messages; a message without output has no turn."""
        words = [word for word in self.layout.words if word.owners]
        places: dict[int, list[int]] = {}
        for place, word in enumerate(words):
            for owner in word.owners:
                if owner == word.message or len(word.owners) > 1:
                    places.setdefault(owner, []).append(place)
        written = {owner for word in words for owner in word.owners}
        for number in wanted:
            if number in written and number not in places:
                _refuse(f"the template does not write message {number + 1} in one turn of a loop")
        return [self._find_turn(number, words, places[number]) for number in wanted if number in places]

    def _find_turn(self, number: int, words: list[Word], places: list[int]) -> TrainedSpan:
        text, first, last = self.layout.text, places[0], places[-1]
        for word in words[first : last + 1]:
            if word.owners != {number} or word.origin.has_text:
                others = ", ".join(str(owner + 1) for owner in sorted(word.owners - {number}))
                mixed = f"words of message {others}" if others else "text of the template"
                _refuse(f"message {number + 1} is mixed with {mixed}")
        start, end = words[first].start, words[last].end
        before = words[first - 1].end if first else 0
        after = words[last + 1].start if last + 1 < len(words) else len(text)
        if number < len(self.conversation.messages) - 1:
            after = min(after, max(end, self.layout.ends.get(number, end)))
        begin = start
        role = self.conversation.messages[number]["role"]
        for opening in self._list_openings(number) if role == ANSWERER else ():
            if (at := text.rfind(opening, before, start)) >= 0:
                begin = at + len(opening)
                break
        return TrainedSpan(begin, end + self._measure_closing(text[end:after]), role, number)

    def _list_openings(self, number: int) -> list[str]:
        """Return the generation prompt before a message and its prefixes of whole lines or tokens."""
        messages, variables = self.conversation.messages, self.conversation.variables
        ahead = messages[number - 1] if number else {}
        kind = (ahead.get("role"), bool(ahead.get("tool_calls")))
        if kind in self._prompts:
            return self._prompts[kind]
        try:
            base = self.template.render(messages[:number], variables)
            prompted = self.template.render(messages[:number], variables, prompt=True)
        except RecordError:
            base, prompted = "", ""
        prompt = prompted.removeprefix(base) if prompted.startswith(base) else ""
        cuts = {found.end() for found in self.pattern.finditer(prompt)} | {len(prompt)}
        cuts |= {place + 1 for place, letter in enumerate(prompt) if letter == "\n"}
        self._prompts[kind] = [prompt[:cut] for cut in sorted(cuts, reverse=True) if cut]
        return self._prompts[kind]

    def _measure_closing(self, tail: str) -> int:
        """Return the length up to the first special token, or up to EOS if only special tokens precede it."""
        found = self.pattern.search(tail)
        if found is None:
            # Without an end token, the closing text of the template is trained.
            return len(tail.rstrip())
        stop = found.end()
        while (more := self.pattern.match(tail, stop)) is not None:
            stop = more.end()
            if more[0] == self.template.variables.get("eos_token"):
                return stop
        return found.end()


def _find_turns_in_blocks(layout: Layout, wanted: set[int], answers: list[int]) -> list[TrainedSpan]:
    """Return the blocks of the wanted messages; raise if a block mixes messages or a message has no block."""
    possible = set(answers)
    owners: list[set[int]] = [set() for _ in layout.blocks]
    written: set[int] = set()
    for word in layout.words:
        written |= word.owners
        if word.block is not None:
            owners[word.block] |= word.owners
    turns = []
    for nth, ((start, end, at), found) in enumerate(zip(layout.blocks, owners, strict=True)):
        if len(found) > 1 or found - possible:
            shown = ", ".join(str(owner + 1) for owner in sorted(found))
            _refuse(f"a generation block of the template contains words of message {shown}")
        message = next(iter(found), at)
        if message not in possible:
            message = answers[nth] if len(layout.blocks) == len(answers) else answers[-1]
        if message in wanted:
            turns.append(TrainedSpan(start, end, ANSWERER, message))
    for message in sorted(written & wanted - {turn.message for turn in turns}):
        _refuse(f"no generation block of the template contains words of message {message + 1}")
    return turns
