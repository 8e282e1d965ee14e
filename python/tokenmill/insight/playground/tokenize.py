"""The playground's answers: tokens of a text, the merges of one token, what of a conversation is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.insight.chats import show_typed
from tokenmill.insight.explain import explain, explain_merges
from tokenmill.insight.playground.guard import RequestError, read_body

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from tokenmill.insight.playground.served import Served


def make_routes(served: Served) -> list[Any]:
    """The playground's routes."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def list_tokenizers(_: Request) -> Response:
        names = await run_in_threadpool(served.list_tokenizers)
        return JSONResponse({"tokenizers": [{"name": name, "label": name} for name in names]})

    async def tokenize(request: Request) -> Response:
        body = await read_body(request)
        return JSONResponse(await run_in_threadpool(_tokenize, served, body))

    async def show_chat(request: Request) -> Response:
        body = await read_body(request)
        return JSONResponse(await run_in_threadpool(_show_chat, served, body))

    async def show_merges(request: Request) -> Response:
        body = await read_body(request)
        return JSONResponse(await run_in_threadpool(_explain_merges, served, body))

    return [
        Route("/api/tokenizers", list_tokenizers),
        Route("/api/tokenize", tokenize, methods=["POST"]),
        Route("/api/chat", show_chat, methods=["POST"]),
        Route("/api/merges", show_merges, methods=["POST"]),
    ]


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
