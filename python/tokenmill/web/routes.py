"""The routes of the application: the playground and the runs."""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from tokenmill.chat.template import DEFAULT, list_own_templates
from tokenmill.errors import DatasetError
from tokenmill.pipeline.traces import trace_step
from tokenmill.report.card import render_parts
from tokenmill.report.dataset import REPORT_HTML
from tokenmill.report.documents import (
    describe_run,
    find_progress,
    read_document,
    read_row,
    show_typed,
)
from tokenmill.report.explain import explain, explain_merges
from tokenmill.report.training import load_training_counts
from tokenmill.vocab.card import describe_vocabulary, list_tokens
from tokenmill.web.chat import show_chat
from tokenmill.web.middleware import REPORT_POLICY, RequestError, answer, parse_number

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.web.app import Served


POLL_SECONDS = 0.4
FINAL = {"done", "failed", "interrupted"}
MOST_TRACED = 1 << 16
LONGEST_ROW = 1 << 20


def make_run_routes(served: Served) -> list[Any]:
    """Return the routes of the runs; the id of a run is its path below the served directory."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, StreamingResponse
    from starlette.routing import Route

    def find_directory(request: Request) -> Path:
        return served.resolve(request.path_params["run"])

    async def stream_events(request: Request) -> Response:
        return StreamingResponse(
            _stream_progress(request, find_directory(request)), media_type="text/event-stream"
        )

    async def show_report(request: Request) -> Response:
        root = find_directory(request)
        if not (root / REPORT_HTML).exists():
            raise DatasetError(
                f"{root.name} has no report yet; tokenmill dataset report {root.name} writes it"
            )
        path = served.resolve(f"{request.path_params['run']}/{REPORT_HTML}")  # rejects links to the outside
        html = await run_in_threadpool(path.read_text, encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": REPORT_POLICY})

    def show(look: Callable[[Path, Request], Any]) -> Callable[[Request], Awaitable[Response]]:
        return answer(lambda request: look(find_directory(request), request))

    run = "/api/runs/{run:path}"
    return [
        Route("/api/runs", answer(lambda _: _list_runs(served))),
        Route(f"{run}/events", stream_events),
        Route(f"{run}/documents/{{index}}", show(lambda root, it: read_document(root, _parse_index(it)))),
        Route(f"{run}/rows/{{index}}", show(lambda root, it: read_row(root, _parse_index(it)))),
        Route(f"{run}/trace", show(_trace)),
        Route("/runs/{run:path}/report", show_report),
    ]


def _list_runs(served: Served) -> dict[str, Any]:
    return {"runs": [describe_run(served.resolve(name), name) for name in served.list_runs()]}


def _trace(root: Path, request: Request) -> dict[str, Any]:
    """Return the rows that every rank reads at a step of training."""
    names = ("step", "batch", "ranks", "seed", "length")
    step, batch, ranks, seed, length = (
        parse_number(request.query_params.get(name, ""), name) for name in names
    )
    if step is None or batch is None or ranks is None:
        raise RequestError(400, "a trace needs a step, a batch size and a number of ranks")
    if batch * ranks > MOST_TRACED or (length or 0) > LONGEST_ROW:
        raise RequestError(
            400,
            f"a trace shows at most {MOST_TRACED:,} rows of {LONGEST_ROW:,} tokens in a step; give a smaller "
            "batch size, number of ranks or length",
        )
    return trace_step(root, step, batch_size=batch, world_size=ranks, seed=seed, context_length=length)


def _parse_index(request: Request) -> int:
    number = parse_number(request.path_params["index"], "number of a document or row")
    if number is None:
        raise RequestError(400, "the number of a document or row is missing")
    return number


async def _stream_progress(request: Request, root: Path) -> AsyncIterator[str]:
    """Yield a server-sent event whenever the progress file changes; the last when the job has ended."""
    last = None
    while not await request.is_disconnected():
        progress = find_progress(root)
        if progress != last:
            yield f"data: {json.dumps(progress)}\n\n"
            last = progress
        if progress["state"] in FINAL:
            return
        await asyncio.sleep(POLL_SECONDS)


def make_playground_routes(served: Served) -> list[Any]:
    """Return the routes of the playground."""
    from starlette.routing import Route

    posted = {"tokenize": _tokenize, "chat": _show_chat, "merges": _explain_merges, "card": _show_card}
    return [
        Route("/api/tokenizers", answer(lambda _: {"tokenizers": served.list_tokenizers()})),
        *(
            Route(f"/api/{name}", answer(partial(work, served), body=True), methods=["POST"])
            for name, work in posted.items()
        ),
    ]


def _tokenize(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    name, text = _read_string(body, "tokenizer"), _read_string(body, "text")
    special = body.get("special", "text")
    if special not in ("text", "parse"):
        raise RequestError(400, f"special is {special!r}; expected 'text' or 'parse'")
    tokenizer, path = served.load_tokenizer(name), served.resolve(name)
    found = explain(tokenizer, text, special=special)
    trained = _load_training_counts(path, tokenizer)
    known = {token: trained[token] for token in found["counts"] if token in trained}
    return {"tokenizer": name, "source": str(path), "training_counts": known, **found}


_load_training_counts = lru_cache(maxsize=8)(load_training_counts)


def _show_chat(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    """Render a conversation: built-in templates in this process, templates of files in another one."""
    name, text = _read_string(body, "tokenizer"), _read_string(body, "text")
    tokenizer = served.load_tokenizer(name)
    if DEFAULT in list_own_templates(tokenizer.recipe):
        return {"tokenizer": name, **show_chat(served.resolve(name), text)}
    return {"tokenizer": name, **show_typed(tokenizer, text)}


def _explain_merges(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    token = body.get("id")
    if not isinstance(token, int) or isinstance(token, bool):
        raise RequestError(400, f"id is {token!r}; expected a token id")
    return explain_merges(served.load_tokenizer(_read_string(body, "tokenizer")), token)


def _show_card(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    name = _read_string(body, "tokenizer")
    return {"tokenizer": name, "html": _draw_card(served.load_tokenizer(name))}


@lru_cache(maxsize=8)
def _draw_card(tokenizer: Tokenizer) -> str:
    return "".join(render_parts(describe_vocabulary(tokenizer, list_tokens(tokenizer))))


def _read_string(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise RequestError(400, f"{key} is {type(value).__name__}; expected a string")
    return value
