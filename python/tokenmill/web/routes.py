"""The routes of the application: the playground and the runs."""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tokenmill.chat.template import DEFAULT, list_own_templates
from tokenmill.errors import DatasetError
from tokenmill.pipeline.traces import trace_step
from tokenmill.report.card import render_parts
from tokenmill.report.documents import describe_document, describe_run, find_progress, read_row, show_typed
from tokenmill.report.explain import explain, explain_merges
from tokenmill.report.training import REPORT_HTML, load_training_counts
from tokenmill.vocab.card import describe_vocabulary, list_tokens
from tokenmill.web.chat import show_chat
from tokenmill.web.middleware import REPORT_POLICY, Body, RequestError, answer, parse_number, read_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.web.app import Served

POLL_SECONDS = 0.4
FINAL = {"done", "failed", "interrupted"}
MOST_TRACED = 1 << 16
MOST_TOKENS_SHOWN = 20_000
LONGEST_ROW = 1 << 20


def make_run_routes(served: Served) -> list[Any]:
    """Return the routes of the runs; the id of a run is its path below the served directory."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, StreamingResponse
    from starlette.routing import Route

    def find_root(request: Request) -> Path:
        return served.resolve(request.path_params["run"])

    def list_runs(_: Request) -> Any:
        return {"runs": [describe_run(served.resolve(name), name) for name in served.list_runs()]}

    def show_document(request: Request) -> Any:
        index = parse_number(request.path_params["index"], "number")
        return describe_document(find_root(request), index, most=MOST_TOKENS_SHOWN)

    def show_row(request: Request) -> Any:
        return read_row(find_root(request), parse_number(request.path_params["index"], "number"))

    async def stream_events(request: Request) -> Response:
        events = _stream_progress(request, find_root(request))
        return StreamingResponse(events, media_type="text/event-stream")

    async def show_report(request: Request) -> Response:
        root = find_root(request)
        if not (root / REPORT_HTML).exists():
            raise DatasetError(
                f"{root.name} has no report yet; tokenmill dataset report {root.name} writes it"
            )
        path = served.resolve(f"{request.path_params['run']}/{REPORT_HTML}")  # rejects links to the outside
        html = await run_in_threadpool(path.read_text, encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": REPORT_POLICY})

    def trace(request: Request) -> Any:
        return _trace(find_root(request), request.query_params)

    run = "/api/runs/{run:path}"
    return [
        Route("/api/runs", answer(list_runs)),
        Route(f"{run}/events", stream_events),
        Route(f"{run}/documents/{{index}}", answer(show_document)),
        Route(f"{run}/rows/{{index}}", answer(show_row)),
        Route(f"{run}/trace", answer(trace)),
        Route("/runs/{run:path}/report", show_report),
    ]


def make_playground_routes(served: Served) -> list[Any]:
    """Return the routes of the playground."""
    from starlette.routing import Route

    def list_tokenizers(_: Request) -> Any:
        return {"tokenizers": served.list_tokenizers()}

    def tokenize(body: Body) -> Any:
        tokenizer, path = served.load_tokenizer(body.tokenizer), served.resolve(body.tokenizer)
        found = explain(tokenizer, body.text, special=body.special)
        trained = _load_training_counts(path, tokenizer)
        known = {token: trained[token] for token in found["counts"] if token in trained}
        return {"tokenizer": body.tokenizer, "source": str(path), "training_counts": known, **found}

    def chat(body: Body) -> Any:
        """Render a conversation: built-in templates in this process, templates of files in another one."""
        tokenizer = served.load_tokenizer(body.tokenizer)
        if DEFAULT in list_own_templates(tokenizer.recipe):
            return {"tokenizer": body.tokenizer, **show_chat(served.resolve(body.tokenizer), body.text)}
        return {"tokenizer": body.tokenizer, **show_typed(tokenizer, body.text)}

    def merges(body: Body) -> Any:
        return explain_merges(served.load_tokenizer(body.tokenizer), body.id)

    def card(body: Body) -> Any:
        return {"tokenizer": body.tokenizer, "html": _draw_card(served.load_tokenizer(body.tokenizer))}

    posted = (tokenize, chat, merges, card)
    return [
        Route("/api/tokenizers", answer(list_tokenizers)),
        *(Route(f"/api/{work.__name__}", answer(work, read_body), methods=["POST"]) for work in posted),
    ]


_load_training_counts = lru_cache(maxsize=8)(load_training_counts)


@lru_cache(maxsize=8)
def _draw_card(tokenizer: Tokenizer) -> str:
    return render_parts(describe_vocabulary(tokenizer, list_tokens(tokenizer)))


def _trace(root: Path, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the rows that every rank reads at a step of training."""
    asked = {name: parse_number(value, name) for name, value in query.items() if value}
    if not {"step", "batch", "ranks"} <= asked.keys():
        raise RequestError(400, "a trace needs a step, a batch size and a number of ranks")
    if asked["batch"] * asked["ranks"] > MOST_TRACED or asked.get("length", 0) > LONGEST_ROW:
        raise RequestError(
            400,
            f"a trace shows at most {MOST_TRACED:,} rows of {LONGEST_ROW:,} tokens in a step; give a smaller "
            "batch size, number of ranks or length",
        )
    return trace_step(
        root,
        asked["step"],
        batch_size=asked["batch"],
        world_size=asked["ranks"],
        seed=asked.get("seed"),
        context_length=asked.get("length"),
    )


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
