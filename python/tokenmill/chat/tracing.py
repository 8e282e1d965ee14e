"""One conversation through its template, on symbols or, where that is not possible, on its words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tokenmill.chat.conversation import ANSWERER, RecordError
from tokenmill.chat.renders import SymbolRender, WordRender
from tokenmill.chat.script import LearnedStretch, Rendered, Skeleton, place_turns
from tokenmill.chat.structure import list_fixed_strings
from tokenmill.chat.symbols import MARKS, Ref, Tracer, UntraceableError
from tokenmill.chat.turns import Turn, TurnFinder, UnprovedError, find_turns_in_blocks, take_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.chat.conversation import Conversation, Message
    from tokenmill.chat.specials import Specials
    from tokenmill.chat.structure import Structure
    from tokenmill.chat.symbols import Note
    from tokenmill.chat.template import ChatTemplate


@dataclass(frozen=True)
class Teacher:
    """Decides which messages are learned."""

    train_on: str

    def choose(self, conversation: Conversation) -> list[int]:
        """The numbers of the messages that are learned."""
        roles = [message["role"] for message in conversation.messages]
        answers = [number for number, role in enumerate(roles) if role == ANSWERER]
        if self.train_on == "last":
            return answers[-1:]
        if self.train_on == "completion":
            start = conversation.answered
            if start is None:
                asked = [number for number, role in enumerate(roles) if role == "user"]
                start = asked[-1] + 1 if asked else 0
            return [number for number in answers if number >= start]
        return answers


@dataclass(frozen=True)
class Tracing:
    """How conversations become text: the template, the special tokens, and what is learned."""

    template: ChatTemplate
    specials: Specials
    teacher: Teacher

    @property
    def eos(self) -> str | None:
        """The string that ends a text."""
        told = self.template.variables.get("eos_token")
        return told if isinstance(told, str) else None

    def trace(
        self, conversation: Conversation, structure: Structure
    ) -> tuple[Rendered, list[Note], Skeleton | None]:
        """The text; and where it was made on symbols, the notes and the text with holes."""
        if not any(mark in leaf.text for leaf in structure.leaves for mark in MARKS):
            tracer = Tracer((leaf.text, leaf.message) for leaf in structure.leaves)
            try:
                with self.template.use_tracer(tracer):
                    skeleton = self._build_skeleton(conversation, structure, tracer)
                filled = skeleton.fill([value.text for value in tracer.values])
            except UntraceableError:
                pass
            else:
                return filled, tracer.notes, skeleton
        with self.template.use_tracer(None):
            return self._from_words(conversation, structure), [], None

    def _build_skeleton(self, conversation: Conversation, structure: Structure, tracer: Tracer) -> Skeleton:
        self._check_fixed(structure)
        render = SymbolRender(self.template, conversation, tracer)
        try:
            whole, blocks = take_blocks(render.render_all())
        except RecordError as error:
            # It is raised again for the words themselves, which is what the user knows.
            raise UntraceableError(error.detail) from None
        parts = tracer.split_parts(whole)
        held = [tracer.values[part.number] for part in parts if isinstance(part, Ref)]
        for value in held:
            if any(self.specials.pattern.search(text) for text in value.template):
                raise UntraceableError("words and special tokens in one string")
        self._check_written(
            conversation, structure, tracer, {leaf for value in held for leaf in value.leaves}
        )
        turns = self._find_turns(conversation, whole, blocks, render)
        texts = [part if isinstance(part, str) else "" for part in parts]
        roles = [message["role"] for message in conversation.messages]
        learned = place_turns(parts, turns, roles)
        if self.teacher.train_on == "all":
            learned = place_turns(parts, [Turn(0, len(whole), 0)], ["all"])
        return Skeleton(
            tuple(part.encode() if isinstance(part, str) else part.number for part in parts),
            learned,
            sum(map(self.specials.count, texts)),
            self._is_safe(parts),
            self._is_closed(whole, turns),
        )

    def _is_safe(self, parts: Sequence[str | Ref]) -> bool:
        """Whether no words can make a special token together with what the template wrote beside them."""
        for before, after in pairwise(parts):
            left = before if isinstance(before, str) else ""
            right = after if isinstance(after, str) else ""
            both = isinstance(before, Ref) and isinstance(after, Ref)
            if both or self.specials.can_cross(left, right):
                return False
        return True

    def _is_closed(self, whole: str, turns: Sequence[Turn]) -> bool:
        """Whether every turn that is learned ends with a special token."""
        ends = (whole[turn.start : turn.end].rstrip() for turn in turns)
        return all(text.endswith(self.specials.strings) for text in ends) if self.specials.strings else False

    def _find_turns(self, conversation: Conversation, whole: str, blocks: Any, render: Any) -> list[Turn]:
        wanted = self.teacher.choose(conversation)
        if not wanted or self.teacher.train_on == "all":
            return []
        messages = conversation.messages
        answers = [number for number, each in enumerate(messages) if each["role"] == ANSWERER]
        try:
            if blocks:
                return find_turns_in_blocks(blocks, render.find_spans(whole), wanted, answers)
            return TurnFinder(self.specials.pattern, self.eos).find(whole, len(messages), wanted, render)
        except UnprovedError as error:
            raise RecordError("unproved_mask", f"what is learned cannot be proved: {error}") from None

    def _check_fixed(self, structure: Structure) -> None:
        for text in list_fixed_strings(structure.key):
            if self.specials.pattern.search(text) or any(mark in text for mark in MARKS):
                raise RecordError(
                    "special_string", f"{text[:80]!r}, which is not content, contains a special token"
                )

    def _check_written(
        self, conversation: Conversation, structure: Structure, tracer: Tracer, written: set[int]
    ) -> None:
        """No message may vanish: those of a role that the template skips would be lost silently."""
        kept = {structure.leaves[number].message for number in written}
        for number, leaf in enumerate(structure.leaves):
            if (
                leaf.content
                and leaf.message not in kept
                and not tracer.ask(is_blank, tracer.make_symbol(number))
            ):
                role = conversation.messages[leaf.message]["role"]
                raise RecordError(
                    "role_left_out",
                    f"the chat template {self.template.name} leaves out message {leaf.message + 1}, "
                    f"whose role is {role!r}",
                )

    def _from_words(self, conversation: Conversation, structure: Structure) -> Rendered:
        self._check_fixed(structure)
        for leaf in structure.leaves:
            if self.specials.pattern.search(leaf.text) or any(mark in leaf.text for mark in MARKS):
                raise RecordError(
                    "special_string",
                    "a message contains a special token, and this template mixes words in a way that it "
                    "cannot be told apart from what the template writes",
                )
        render = WordRender(self.template, conversation)
        whole, blocks = take_blocks(render.render_all())
        roles = [message["role"] for message in conversation.messages]
        turns = self._find_turns(conversation, whole, blocks, render)
        stretches = [
            LearnedStretch(
                len(whole[: turn.start].encode()), len(whole[: turn.end].encode()), roles[turn.message]
            )
            for turn in turns
        ]
        text = whole.encode()
        if self.teacher.train_on == "all":
            stretches = [LearnedStretch(0, len(text), "all")]
        return Rendered(
            text, tuple(stretches), (), self.specials.count(whole), closed=self._is_closed(whole, turns)
        )


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space, as a note."""
    return not text.strip()


def handles_parts(template: ChatTemplate) -> bool:
    """Whether a template takes contents of parts, seen on a conversation in both forms."""

    def ask(content: Any) -> list[Message]:
        return [{"role": "user", "content": content}, {"role": ANSWERER, "content": content}]

    try:
        return template.render(ask([{"type": "text", "text": "word"}]), {}) == template.render(
            ask("word"), {}
        )
    except RecordError:
        return False
