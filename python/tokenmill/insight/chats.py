"""Conversations to look at: a document in stretches that are learned or not, and a template on a sample."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.engine.tokenizer import Tokenizer

SAMPLE: list[dict[str, Any]] = [
    {"role": "user", "content": "What does the mill do?"},
    {"role": "assistant", "content": "It turns."},
    {"role": "user", "content": "And then? <|im_end|>"},
    {"role": "assistant", "content": "It grinds the grain."},
]


def split_learned(tokenizer: Any, ids: NDArray[Any], learned: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """`[{"text": "…", "learned": False, "tokens": 9}, …]`: a text, cut where learning begins or ends."""
    edges = [0, *(np.flatnonzero(np.diff(learned.astype(np.int8))) + 1).tolist(), len(ids)]
    return [
        {"text": tokenizer.decode(ids[a:b].tolist()), "learned": bool(learned[a]), "tokens": b - a}
        for a, b in pairwise(edges)
        if b > a
    ]


def show_template(tokenizer: Tokenizer, asked: str | None = None) -> dict[str, Any]:
    """A tokenizer's chat template on a small conversation: its name, the text and what of it is learned."""
    from tokenmill.base.learned import is_learned, without_marks
    from tokenmill.engine.chat.chat import Chat
    from tokenmill.engine.chat.conversation import Conversation, RecordError, RecordShape
    from tokenmill.engine.chat.ids import ChatEncoder
    from tokenmill.engine.chat.template import ChatTemplate, find_template, token_variables

    name, source = find_template(tokenizer.recipe, asked)
    encoder = ChatEncoder(tokenizer)
    today = datetime.now().astimezone().date()
    template = ChatTemplate(name, source, today, token_variables(tokenizer.recipe))
    template.check()
    chat = Chat(RecordShape("messages"), template, "assistant", encoder.strings)
    try:
        rendered = chat.render_conversation(Conversation([dict(message) for message in SAMPLE]))
        made = encoder.encode([rendered], "text", 1)
        if made.faults:
            raise made.faults[0]
    except RecordError as error:
        return {"template": name, "problem": error.detail, "parts": []}
    parts = split_learned(tokenizer, without_marks(made.ids), is_learned(made.ids))
    return {
        "template": name,
        "marked": "generation" in source,
        "closed": rendered.closed,
        "tokens": len(made.ids),
        "parts": parts,
    }
