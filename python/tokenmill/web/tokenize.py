"""The playground's answers: tokens of a text, the merges of one token, what of a conversation is learned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tokenmill.report.chats import show_typed
from tokenmill.report.explain import explain, explain_merges
from tokenmill.web.guard import RequestError, answer

if TYPE_CHECKING:
    from tokenmill.web.served import Served


def make_routes(served: Served) -> list[Any]:
    """The playground's routes."""
    from starlette.routing import Route

    posted = {"tokenize": _tokenize, "chat": _show_chat, "merges": _explain_merges}
    return [
        Route("/api/tokenizers", answer(lambda _: _list_tokenizers(served))),
        *(
            Route(f"/api/{name}", answer(partial(work, served), body=True), methods=["POST"])
            for name, work in posted.items()
        ),
    ]


def _list_tokenizers(served: Served) -> dict[str, Any]:
    return {"tokenizers": [{"name": name, "label": name} for name in served.list_tokenizers()]}


def _tokenize(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    name, text = _read_string(body, "tokenizer"), _read_string(body, "text")
    special = body.get("special", "text")
    if special not in ("text", "parse"):
        raise RequestError(400, f"special is {special!r}; expected 'text' or 'parse'")
    tokenizer = served.load_tokenizer(name)
    return {
        "tokenizer": name,
        "source": str(served.resolve(name)),
        **explain(tokenizer, text, special=special),
    }


def _show_chat(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    name = _read_string(body, "tokenizer")
    return {"tokenizer": name, **show_typed(served.load_tokenizer(name), _read_string(body, "text"))}


def _explain_merges(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    token = body.get("id")
    if not isinstance(token, int) or isinstance(token, bool):
        raise RequestError(400, f"id is {token!r}; expected a token id")
    return explain_merges(served.load_tokenizer(_read_string(body, "tokenizer")), token)


def _read_string(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise RequestError(400, f"{key} is {type(value).__name__}; expected a string")
    return value
