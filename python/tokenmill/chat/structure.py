"""The structure of a conversation, apart from its words: what two conversations may share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.chat.conversation import Conversation, Message
    from tokenmill.chat.symbols import Tracer

# Strings under these keys are looked up and compared rather than written: they belong to the structure.
FIXED = frozenset(("role", "type", "id", "tool_call_id"))


class Leaf(NamedTuple):
    """A string of a conversation, the number of its message, and whether it is that message's content."""

    text: str
    message: int
    content: bool


class Structure(NamedTuple):
    """Everything but the words: equal keys mean equal structures. `leaves` are the words, in order."""

    key: tuple[Any, ...]
    leaves: list[Leaf]


def take_apart(conversation: Conversation) -> Structure:
    """The structure and the words of a conversation."""
    leaves: list[Leaf] = []
    key: list[Any] = [conversation.answered]
    for number, message in enumerate(conversation.messages):
        for name, value in message.items():
            key.append(name)
            if type(value) is str:
                if name in FIXED:
                    key.append(value)
                else:
                    leaves.append(Leaf(value, number, name == "content"))
                    # A string never looks like another kind of value in a key.
                    key.append(None)
            else:
                _walk(value, number, key, leaves, content=name == "content")
        key.append(";")
    if conversation.variables:
        key.append(json.dumps(conversation.variables, sort_keys=True, default=str))
    return Structure(tuple(key), leaves)


def _walk(value: Any, number: int, key: list[Any], leaves: list[Leaf], *, content: bool) -> None:
    if isinstance(value, dict):
        key.append("{")
        for name, item in value.items():
            key.append(name)
            if type(item) is str and name in FIXED:
                key.append((item,))
            else:
                _walk(item, number, key, leaves, content=content)
        key.append("}")
    elif isinstance(value, list):
        key.append("[")
        for item in value:
            _walk(item, number, key, leaves, content=content)
        key.append("]")
    elif type(value) is str:
        leaves.append(Leaf(value, number, content))
        key.append(None)
    else:
        # 1, 1.0 and True are equal and are written differently.
        key.append((type(value).__name__, repr(value)))


def put_symbols(messages: list[Message], tracer: Tracer) -> list[Message]:
    """The same messages with a symbol for each of their words, in the order of `take_apart`."""
    numbers = iter(range(1 << 30))
    return [
        {name: _replace(name, value, tracer, numbers) for name, value in each.items()} for each in messages
    ]


def _replace(name: str | None, value: Any, tracer: Tracer, numbers: Iterator[int]) -> Any:
    if type(value) is str:
        return value if name in FIXED else tracer.make_symbol(next(numbers))
    if isinstance(value, dict):
        return {key: _replace(key, item, tracer, numbers) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(None, item, tracer, numbers) for item in value]
    return value


def list_fixed_strings(value: Any) -> Iterable[str]:
    """Every string of a structure's key, for looking for what must not be in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from list_fixed_strings(item)
