"""A record to a conversation: messages, or a prompt and its completion, as they are published."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

# ShareGPT's words for roles, which no template knows.
ROLES = {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
# Names of a message's reasoning; transformers fills the first from the others, and `thinking` for some.
REASONING = ("reasoning_content", "thinking", "reasoning")
# Fields of a record that a template gets under their own names.
VARIABLES = ("tools", "documents")
# One of several published names of a record's own settings for the template.
SETTINGS = "chat_template_kwargs"

# The role whose words are learned.
ANSWERER = "assistant"

Message = dict[str, Any]


class RecordError(Exception):
    """A record that is not a conversation, or that its template refuses; errors are counted by `reason`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class RecordShape:
    """Which fields of a record are the conversation, and what is put in front of it."""

    messages: str | None = None
    prompt: tuple[str, ...] = ()
    completion: str | None = None
    system: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Conversation:
    """Messages as a template takes them; from `answered` on they are the completion."""

    messages: list[Message]
    answered: int | None = None
    variables: dict[str, Any] = field(default_factory=dict)


def read_conversation(data: str | bytes, shape: RecordShape) -> Conversation:
    """The conversation of one record of JSON; raises `RecordError`."""
    record = json.loads(data)
    if shape.messages is not None:
        found = _find(record, shape.messages)
        messages, answered = _read_messages(found, shape.messages), None
    else:
        messages = _read_prompt(record, shape.prompt)
        answered = len(messages)
        field_name = shape.completion or "completion"
        messages += _read_side(_find(record, field_name), field_name, "assistant")
    system = record.get("system") or shape.system
    if isinstance(system, str) and system and messages and messages[0]["role"] not in {"system", "developer"}:
        messages.insert(0, {"role": "system", "content": system})
        answered = None if answered is None else answered + 1
    return Conversation(messages, answered, _read_variables(record, shape))


def _read_variables(record: dict[str, Any], shape: RecordShape) -> dict[str, Any]:
    variables = {name: record[name] for name in VARIABLES if record.get(name)}
    if isinstance(variables.get("tools"), str):
        variables["tools"] = _parse(variables["tools"], "tools")
    variables |= {name: record[name] for name in shape.columns if record.get(name) is not None}
    own = record.get(SETTINGS)
    if isinstance(own, dict):
        variables |= own
    return variables


def _find(record: dict[str, Any], path: str) -> Any:
    """The value that dots lead to; a name with a dot in it counts as well."""
    if path in record:
        return record[path]
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        known = ", ".join(map(repr, record)) or "no fields"
        raise RecordError("missing_field", f"no field {path!r}; it has {known}")
    return value


def _read_prompt(record: dict[str, Any], names: tuple[str, ...]) -> list[Message]:
    first = _find(record, names[0])
    if not isinstance(first, str) or len(names) == 1:
        return _read_side(first, names[0], "user")
    more = [record.get(name) for name in names[1:]]
    for name, value in zip(names[1:], more, strict=True):
        if value is not None and not isinstance(value, str):
            raise RecordError("bad_content", f"{name!r} is {_describe(value)}, expected text")
    return [{"role": "user", "content": "\n\n".join(part for part in (first, *more) if part)}]


def _read_side(value: Any, name: str, role: str) -> list[Message]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return _read_messages(value, name)


def _read_messages(value: Any, name: str) -> list[Message]:
    if isinstance(value, str):
        value = _parse(value, name)
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise RecordError("bad_messages", f"{name!r} is {_describe(value)}, expected a list of messages")
    if not value:
        raise RecordError("bad_messages", f"{name!r} has no messages")
    return [_read_message(item, place) for place, item in enumerate(value, 1)]


def _parse(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise RecordError("bad_messages", f"{name!r} is text that is not JSON: {text[:60]!r}") from None


def _read_message(item: Any, place: int) -> Message:
    if not isinstance(item, dict):
        raise RecordError("bad_messages", f"message {place} is {_describe(item)}, expected role and content")
    # A missing key of a table's struct comes as None.
    message = {key: value for key, value in item.items() if value is not None}
    if "role" not in message and "from" in message:
        told = message.pop("from")
        message["role"] = ROLES.get(told, told) if isinstance(told, str) else told
    if "content" not in message and "value" in message:
        message["content"] = message.pop("value")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise RecordError(
            "bad_role", f"message {place} has the role {role!r}, expected a word such as 'user'"
        )
    calls = message.get("tool_calls")
    reasons = any(message.get(key) for key in REASONING)
    if "content" not in message and not calls and not reasons:
        raise RecordError("missing_field", f"message {place} ({role}) has no content")
    if "content" in message:
        _check_content(message["content"], place, role)
    elif "content" in item:
        message["content"] = None
    if calls is not None and not isinstance(calls, list):
        raise RecordError(
            "bad_content", f"message {place}: tool_calls is {_describe(calls)}, expected a list"
        )
    return _alias_reasoning(message)


def _check_content(content: Any, place: int, role: str) -> None:
    if isinstance(content, str):
        return
    where = f"message {place} ({role})"
    if not isinstance(content, list):
        raise RecordError(
            "bad_content", f"the content of {where} is {_describe(content)}, expected text or parts"
        )
    for part in content:
        if (
            isinstance(part, dict)
            and part.get("type", "text") == "text"
            and isinstance(part.get("text"), str)
        ):
            continue
        kind = part.get("type") if isinstance(part, dict) else _describe(part)
        raise RecordError("bad_content", f"{where} has a part of type {kind!r}; only text can be learned")


def _alias_reasoning(message: Message) -> Message:
    told = next((message[key] for key in REASONING if message.get(key) is not None), None)
    if told is None:
        return message
    return {"thinking": told, **message, "reasoning_content": told}


def join_parts(messages: list[Message]) -> list[Message]:
    """The same messages with the parts of each content joined, for templates that do not take parts."""
    return [
        {**message, "content": "".join(part["text"] for part in message["content"])}
        if isinstance(message.get("content"), list)
        else message
        for message in messages
    ]


def _describe(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "nothing" if value is None else "an object")
