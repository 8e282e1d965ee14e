"""The two ways in which the first messages of a conversation are rendered: on symbols, and on their words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from tokenmill.chat.conversation import ANSWERER, RecordError
from tokenmill.chat.structure import put_symbols
from tokenmill.chat.symbols import PLACEHOLDER, read_number
from tokenmill.chat.turns import Span, UnprovedError, take_blocks

if TYPE_CHECKING:
    from tokenmill.chat.conversation import Conversation, Message
    from tokenmill.chat.symbols import Tracer
    from tokenmill.chat.template import ChatTemplate


class Render(ABC):
    """What both ways share: the text of the first `count` messages is rendered once."""

    def __init__(self, template: ChatTemplate, messages: list[Message], variables: dict[str, Any]) -> None:
        self._template = template
        self._messages = messages
        self._variables = variables
        self._known: dict[tuple[int, bool], str | None] = {}

    def render_all(self) -> str:
        """All messages, `generation` blocks marked."""
        return self._template.render(self._messages, self._variables)

    @abstractmethod
    def find_spans(self, text: str) -> list[Span]:
        """Where the words of messages stand in a text, in order."""

    def __call__(self, count: int, *, prompt: bool = False) -> str | None:
        """The text of `count` messages; None where the template refuses to."""
        key = (count, prompt)
        if key not in self._known:
            try:
                text = self._template.render(self._messages[:count], self._variables, prompt=prompt)
                self._known[key] = take_blocks(text)[0]
            except RecordError:
                self._known[key] = None
        return self._known[key]


class SymbolRender(Render):
    """Renders on symbols, which say themselves whose words they are."""

    def __init__(self, template: ChatTemplate, conversation: Conversation, tracer: Tracer) -> None:
        super().__init__(template, put_symbols(conversation.messages, tracer), conversation.variables)
        self._tracer = tracer

    def find_spans(self, text: str) -> list[Span]:
        """Placeholders, and whose words they stand for."""
        values = self._tracer.values
        return [
            Span(found.start(), found.end(), values[read_number(found)].owners)
            for found in PLACEHOLDER.finditer(str.__str__(text))
        ]


class WordRender(Render):
    """Renders messages as they are; their words are found by what each message adds."""

    def __init__(self, template: ChatTemplate, conversation: Conversation) -> None:
        super().__init__(template, conversation.messages, conversation.variables)

    def find_spans(self, text: str) -> list[Span]:
        """Where each message stands, of an answer only its words; raises `UnprovedError` if unclear."""
        found, before = [], 0
        for number, message in enumerate(self._messages):
            upto = self(number + 1)
            if upto is None or not text.startswith(upto.rstrip()):
                if len(text) <= before:
                    break  # a shorter text has fewer messages
                raise UnprovedError(
                    f"the template writes message {number + 1} differently once others follow it"
                )
            start, end = before, len(upto)
            if message["role"] == ANSWERER:
                start, end = self._find_words(text, number, before, end)
            found.append(Span(start, min(end, len(text)), frozenset([number])))
            before = len(upto)
        return found

    def _find_words(self, text: str, number: int, start: int, end: int) -> tuple[int, int]:
        opened = self(number, prompt=True)
        if opened is not None and text.startswith(opened) and len(opened) > start:
            start = len(opened)
        content = self._messages[number].get("content")
        words = content.strip() if isinstance(content, str) else ""
        at = text.find(words, start, end)
        if at < 0 or text.find(words, at + 1, end) >= 0 or self._messages[number].get("tool_calls"):
            raise UnprovedError(
                f"the words of message {number + 1} cannot be found in what the template writes"
            )
        return at, at + len(words)
