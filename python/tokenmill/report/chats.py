"""Conversations to look at: a document in stretches that are learned or not, and a template on a sample."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.tokenizer.tokenizer import Tokenizer

ROLES = ("system", "user", "assistant", "tool")
_SPEAKER = re.compile(rf"\n({'|'.join(ROLES)}):")
SAMPLE: list[dict[str, Any]] = [
    {"role": "user", "content": "What does the mill do?"},
    {"role": "assistant", "content": "It turns."},
    {"role": "user", "content": "And then? <|im_end|>"},
    {"role": "assistant", "content": "It grinds the grain."},
]


def split_learned(tokenizer: Any, ids: NDArray[Any], learned: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """`[{"text": "…", "learned": False, "tokens": 9}, …]`: a text, cut where learning begins or ends."""
    return [
        {"text": tokenizer.decode(ids[a:b].tolist()), "learned": bool(learned[a]), "tokens": b - a}
        for a, b in split_runs(learned)
        if b > a
    ]


def split_runs(values: NDArray[Any]) -> list[tuple[int, int]]:
    """`[7, 7, 9]` -> `[(0, 2), (2, 3)]`: where each stretch of equal values begins and ends."""
    return list(pairwise([0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]))


def read_typed(text: str) -> list[dict[str, Any]]:
    r"""Messages as a person types them: lines that begin with a role, or the JSON of a record.

    >>> read_typed("user: What does it do?\nassistant: It turns.")[1]
    {'role': 'assistant', 'content': 'It turns.'}
    """
    if text.lstrip()[:1] in {"[", "{"}:
        return _read_json(text)
    _, *rest = _SPEAKER.split(f"\n{text}")
    roles, contents = rest[::2], rest[1::2]
    if not roles or not text.lstrip().startswith(f"{roles[0]}:"):
        raise ConfigError(
            "no conversation: begin each message on a new line with its role, as in `user: Hello` "
            f"({', '.join(ROLES)}); or paste the JSON of a record"
        )
    return [{"role": role, "content": content.strip()} for role, content in zip(roles, contents, strict=True)]


def _read_json(text: str) -> list[dict[str, Any]]:
    from tokenmill.chat.records import RecordError, RecordShape, read_conversation

    try:
        found = json.loads(text)
        record = {"messages": found} if isinstance(found, list) else found
        return read_conversation(json.dumps(record), RecordShape("messages")).messages
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"no conversation: this is not JSON ({error})") from None
    except RecordError as error:
        raise ConfigError(f"no conversation: {error.detail}") from None


def show_typed(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """A typed conversation by the tokenizer's own template, or by `plain` where it has none."""
    from tokenmill.chat.template import DEFAULT, list_own_templates

    asked = None if DEFAULT in list_own_templates(tokenizer.recipe) else "plain"
    return show_template(tokenizer, asked, read_typed(text))


def show_template(
    tokenizer: Tokenizer, asked: str | None = None, messages: Sequence[dict[str, Any]] = SAMPLE
) -> dict[str, Any]:
    """A tokenizer's chat template on a conversation: its name, the text and which parts are learned."""
    from tokenmill.base.learned import is_learned, strip_marks
    from tokenmill.chat.encode import make_chat_work
    from tokenmill.chat.records import Conversation, RecordError, RecordShape
    from tokenmill.chat.template import make_template

    template = make_template(tokenizer.recipe, asked)
    work = make_chat_work(tokenizer, RecordShape("messages"), template, "assistant")
    try:
        rendered = work.renderer.render_conversation(Conversation([dict(message) for message in messages]))
        ids, _ = work.encoder.encode(rendered, "text")
    except RecordError as error:
        return {"template": template.name, "problem": error.detail, "parts": []}
    parts = split_learned(tokenizer, strip_marks(ids), is_learned(ids))
    return {
        "template": template.name,
        "marked": rendered.has_blocks,
        "closed": rendered.closed,
        "tokens": len(ids),
        "parts": parts,
    }
