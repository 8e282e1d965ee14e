"""Parse records into conversations: messages, or a prompt and its completion, in published formats."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger("tokenmill.prepare")

# The role whose messages are trained on.
ANSWERER = "assistant"
CALLER = "function_call"
# Role names that templates do not support, and those of ShareGPT, with the standard role of each.
ROLES = {"human": "user", "gpt": ANSWERER, "chatgpt": ANSWERER, "bing": ANSWERER, "bard": ANSWERER}
SHAREGPT_ROLES = ROLES | {
    "model": ANSWERER,
    "observation": "tool",
    "function_response": "tool",
    "tool_response": "tool",
}
# Keys of a message's reasoning; the first that is set is copied to `reasoning_content` and `thinking`.
REASONING = ("reasoning_content", "thinking", "reasoning")
# Fields of a record that are passed to the template under the same names.
VARIABLES = ("tools", "documents")
# The field with a record's own template variables.
SETTINGS = "chat_template_kwargs"
# Keys of a message that include it in or exclude it from training, and a pattern of similar keys.
FLAGS = ("weight", "train", "loss", "trainable")
_LIKE_A_FLAG = re.compile("weight|train|loss")
_warned: set[str] = set()

Message = dict[str, Any]


class RecordError(Exception):
    """A record that cannot be parsed, rendered or encoded; errors are counted by `reason`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class RecordShape:
    """The fields of a record that form the conversation, and a default system message."""

    messages: str | None = None
    prompt: tuple[str, ...] = ()
    completion: str | None = None
    system: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Conversation:
    """Messages in the form that templates expect."""

    messages: list[Message]
    # The index of the first message of the completion, if there is one.
    answered: int | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    # True or False for each message with a training flag, by index.
    flags: dict[int, bool] = field(default_factory=dict)


def read_conversation(data: str | bytes, shape: RecordShape) -> Conversation:
    """Return the conversation of one JSON record; raises `RecordError`."""
    record = json.loads(data)
    answered = None
    if shape.messages is not None:
        messages = _read_messages(find_field(record, shape.messages), shape.messages)
    else:
        messages = _read_prompt(record, shape.prompt)
        answered = len(messages)
        name = shape.completion or "completion"
        messages += _read_side(find_field(record, name), name, ANSWERER)
    system = record.get("system") or shape.system
    if isinstance(system, str) and system and messages and messages[0]["role"] not in {"system", "developer"}:
        messages.insert(0, {"role": "system", "content": system})
        answered = None if answered is None else answered + 1
    flags = {
        number: flag
        for number, each in enumerate(messages)
        if (flag := _take_flag(each, number + 1)) is not None
    }
    return Conversation(messages, answered, _read_variables(record, shape), flags)


def _read_variables(record: dict[str, Any], shape: RecordShape) -> dict[str, Any]:
    variables = {name: record[name] for name in VARIABLES if record.get(name)}
    if isinstance(variables.get("tools"), str):
        variables["tools"] = _parse(variables["tools"], "tools")
    variables |= {name: record[name] for name in shape.columns if record.get(name) is not None}
    own = record.get(SETTINGS)
    return variables | own if isinstance(own, dict) else variables


def find_field(record: dict[str, Any], path: str) -> Any:
    """Return the value of the key `path`, or at that dotted path; raises `RecordError` if it is missing."""
    if path in record:
        return record[path]
    value: Any = record
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        known = ", ".join(map(repr, record)) or "no fields"
        raise RecordError("missing_field", f"no field {path!r}; it has {known}")
    return value


def _expect(kind: Any, value: Any, name: str, expected: str, reason: str = "bad_content") -> Any:
    """Return a value of this type; raise `RecordError` for another one."""
    if not isinstance(value, kind):
        raise RecordError(reason, f"{name} is {repr(value)[:60]}, expected {expected}")
    return value


def _read_prompt(record: dict[str, Any], names: tuple[str, ...]) -> list[Message]:
    first = find_field(record, names[0])
    if not isinstance(first, str) or len(names) == 1:
        return _read_side(first, names[0], "user")
    more = [_expect(str | None, record.get(name), repr(name), "text") for name in names[1:]]
    return [{"role": "user", "content": "\n\n".join(part for part in (first, *more) if part)}]


def _read_side(value: Any, name: str, role: str) -> list[Message]:
    return [{"role": role, "content": value}] if isinstance(value, str) else _read_messages(value, name)


def _read_messages(value: Any, name: str) -> list[Message]:
    value = _parse(value, name) if isinstance(value, str) else value
    if not _expect(list, value, repr(name), "a list of messages", "bad_messages"):
        raise RecordError("bad_messages", f"{name!r} has no messages")
    return [_read_message(item, place) for place, item in enumerate(value, 1)]


def _parse(text: str, name: str, reason: str = "bad_messages") -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise RecordError(reason, f"{name!r} is text that is not JSON: {text[:60]!r}") from None


def _read_message(item: Any, place: int) -> Message:
    _expect(dict, item, f"message {place}", "an object with role and content", "bad_messages")
    # Arrow structs return None for a missing key.
    message = {key: value for key, value in item.items() if value is not None}
    known = ROLES
    if "role" not in message and "from" in message:
        message["role"], known = message.pop("from"), SHAREGPT_ROLES
    if "content" not in message and "value" in message:
        message["content"] = message.pop("value")
    name = f"the role of message {place}"
    role = _expect(str, message.get("role") or None, name, "a word such as 'user'", "bad_role")
    where = f"message {place} ({role})"
    message["role"] = known.get(role, role)
    if role == CALLER:
        message |= {"role": ANSWERER, "content": "", "tool_calls": _read_calls(message.get("content"), where)}
    calls = _expect(list | None, message.get("tool_calls"), f"tool_calls of {where}", "a list")
    reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
    if "content" not in message and not calls and not reasoning:
        raise RecordError("missing_field", f"{where} has no content")
    if "content" in item:
        message.setdefault("content", None)
    content = _expect(str | list | None, message.get("content"), f"the content of {where}", "text or parts")
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else None
        if not isinstance(text, str):
            detail = f"{where} has the part {repr(part)[:60]}; only text can be trained on"
            raise RecordError("bad_content", detail)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _read_calls(content: Any, where: str) -> list[Any]:
    """Return the tool calls of a ShareGPT message, which are JSON with a name and arguments."""
    calls = _parse(content, where, "bad_content") if isinstance(content, str) else content
    calls = calls if isinstance(calls, list) else [calls]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        raise RecordError("bad_content", f"{where} is not JSON with a name and arguments")
    return [{"type": "function", "function": call} for call in calls]


def _take_flag(message: Message, place: int) -> bool | None:
    """Remove the training flags of a message and return their value, or None if it has no flag."""
    found = {key: message.pop(key) for key in FLAGS if key in message}
    for key, value in found.items():
        if not isinstance(value, (bool, int, float)) or value not in {0, 1}:
            detail = f"message {place}: {key} is {value!r}, expected 0, 1, true or false"
            raise RecordError("bad_flag", detail)
    if len(set(found.values())) > 1:
        raise RecordError("bad_flag", f"message {place}: {' and '.join(found)} contradict each other")
    for key, value in message.items():
        if _LIKE_A_FLAG.search(key) and isinstance(value, (bool, int, float)) and key not in _warned:
            _warned.add(key)
            logger.warning("Messages have the key %r, which is not a flag: %s", key, ", ".join(FLAGS))
    return bool(next(iter(found.values()))) if found else None
