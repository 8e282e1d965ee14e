"""The answers of a run's own page: its charts, and what a step of training reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.insight.charts import chart_run, trace_step
from tokenmill.insight.playground.guard import RequestError, parse_number

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from tokenmill.insight.playground.served import Served


def make_routes(served: Served) -> list[Any]:
    """The routes of a run's page; a run's id is its path below the served directory."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def chart(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(chart_run, served.resolve(request.path_params["run"])))

    async def trace(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(_trace, served, request))

    return [Route("/api/runs/{run:path}/charts", chart), Route("/api/runs/{run:path}/trace", trace)]


def _trace(served: Served, request: Request) -> dict[str, Any]:
    names = ("step", "batch", "ranks", "seed", "length")
    step, batch, ranks, seed, length = (
        parse_number(request.query_params.get(name, ""), name) for name in names
    )
    if step is None or batch is None or ranks is None:
        raise RequestError(400, "a trace needs a step, a batch size and a number of ranks")
    root = served.resolve(request.path_params["run"])
    return trace_step(root, step, batch_size=batch, world_size=ranks, seed=seed, context_length=length)
