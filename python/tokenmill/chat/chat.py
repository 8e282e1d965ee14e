"""`Chat`: records of one kind to rendered conversations, quickly where a template's work is known already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from tokenmill.chat.conversation import RecordError, join_parts, read_conversation
from tokenmill.chat.script import Script
from tokenmill.chat.specials import Specials
from tokenmill.chat.structure import take_apart
from tokenmill.chat.tracing import Teacher, Tracing, handles_parts

if TYPE_CHECKING:
    from tokenmill.chat.conversation import Conversation, RecordShape
    from tokenmill.chat.script import Rendered
    from tokenmill.chat.template import ChatTemplate

# What is remembered of structures and of the answers within them is bounded; all of it can be found again.
MOST_STRUCTURES = 4096
MOST_NODES = 1 << 16


@dataclass(frozen=True)
class Chat:
    """What a job does with its records. It can be pickled; what it remembers stays in its process."""

    shape: RecordShape
    template: ChatTemplate
    train_on: str
    specials: tuple[str, ...]
    # Whether text that UTF-8 cannot hold is replaced, or the record refused.
    replaces: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Chat, (self.shape, self.template, self.train_on, self.specials, self.replaces)

    @cached_property
    def _tracing(self) -> Tracing:
        return Tracing(self.template, Specials(self.specials), Teacher(self.train_on))

    @cached_property
    def _scripts(self) -> dict[Any, Script]:
        return {}

    @cached_property
    def _adding(self) -> Any:
        return Lock()

    @cached_property
    def takes_parts(self) -> bool:
        """Whether the template takes contents of parts as they are."""
        return handles_parts(self.template)

    def render(self, data: str | bytes) -> Rendered:
        """One record of JSON as text; raises `RecordError`."""
        return self.render_conversation(read_conversation(data, self.shape))

    def render_conversation(self, conversation: Conversation) -> Rendered:
        """A conversation as text; raises `RecordError`."""
        if (
            any(type(message.get("content")) is list for message in conversation.messages)
            and not self.takes_parts
        ):
            conversation.messages = join_parts(conversation.messages)
        structure = take_apart(conversation)
        script = self._scripts.get(structure.key)
        try:
            if script is not None and (found := script.run([leaf.text for leaf in structure.leaves])):
                return found
            return self._trace(conversation, structure)
        except UnicodeEncodeError:
            if self.replaces:
                return self.render_conversation(_replace_surrogates(conversation))
            raise RecordError("lone_surrogate", "a lone surrogate, which is not a character") from None

    def _trace(self, conversation: Conversation, structure: Any) -> Rendered:
        rendered, notes, skeleton = self._tracing.trace(conversation, structure)
        if skeleton is not None:
            with self._adding:
                scripts = self._scripts
                if (
                    len(scripts) >= MOST_STRUCTURES
                    or sum(each.nodes for each in scripts.values()) > MOST_NODES
                ):
                    scripts.clear()
                scripts.setdefault(structure.key, Script()).add(notes, skeleton)
        return rendered


def _replace_surrogates(conversation: Conversation) -> Conversation:
    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list) else value

    conversation.messages = clean(conversation.messages)
    conversation.variables = clean(conversation.variables)
    return conversation
