"""The runs' answers: what is running and done, live progress, reports, documents, rows, search."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import DatasetError
from tokenmill.insight.browse import describe_run, find_progress, find_token, read_document, read_row
from tokenmill.insight.playground.guard import REPORT_POLICY, RequestError, parse_number
from tokenmill.insight.report.report import REPORT_HTML

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from tokenmill.insight.playground.served import Served

POLL_SECONDS = 0.4
FINAL = {"done", "failed", "interrupted"}


def make_routes(served: Served) -> list[Any]:
    """The runs' routes; a run's id is its path below the served directory."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import HTMLResponse, JSONResponse, StreamingResponse
    from starlette.routing import Route

    def find_directory(request: Request) -> Path:
        return served.resolve(request.path_params["run"])

    async def list_runs(_: Request) -> Response:
        names = await run_in_threadpool(served.list_runs)
        runs = [await run_in_threadpool(describe_run, served.resolve(name), name) for name in names]
        return JSONResponse({"runs": runs})

    async def stream_events(request: Request) -> Response:
        return StreamingResponse(
            _stream_progress(request, find_directory(request)), media_type="text/event-stream"
        )

    async def show_report(request: Request) -> Response:
        path = find_directory(request) / REPORT_HTML
        if not path.is_file():
            raise DatasetError(
                f"{path.parent.name} has no report yet; tokenmill dataset report {path.parent.name} writes it"
            )
        html = await run_in_threadpool(path.read_text, encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": REPORT_POLICY})

    async def show_document(request: Request) -> Response:
        return JSONResponse(
            await run_in_threadpool(read_document, find_directory(request), _parse_index(request))
        )

    async def show_row(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(read_row, find_directory(request), _parse_index(request)))

    async def search(request: Request) -> Response:
        token = request.query_params.get("token", "")
        if not token.isascii() or not token.isdigit():
            raise RequestError(400, f"{token!r} is not a token id; expected digits")
        return JSONResponse(await run_in_threadpool(find_token, find_directory(request), int(token)))

    return [
        Route("/api/runs", list_runs),
        Route("/api/runs/{run:path}/events", stream_events),
        Route("/api/runs/{run:path}/documents/{index}", show_document),
        Route("/api/runs/{run:path}/rows/{index}", show_row),
        Route("/api/runs/{run:path}/search", search),
        Route("/runs/{run:path}/report", show_report),
    ]


def _parse_index(request: Request) -> int:
    number = parse_number(request.path_params["index"], "number of a document or row")
    if number is None:
        raise RequestError(400, "the number of a document or row is missing")
    return number


async def _stream_progress(request: Request, root: Path) -> AsyncIterator[str]:
    """Server-sent events: one whenever the progress file changes, the last one when the job has ended."""
    last = None
    while not await request.is_disconnected():
        progress = find_progress(root)
        if progress != last:
            yield f"data: {json.dumps(progress)}\n\n"
            last = progress
        if progress["state"] in FINAL:
            return
        await asyncio.sleep(POLL_SECONDS)
