"""The web application: static files, the playground, the runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError, TokenmillError, explain_missing
from tokenmill.web.served import Served

if TYPE_CHECKING:
    from collections.abc import Sequence

STATIC = Path(__file__).parent / "static"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def create_app(directories: Sequence[str | Path], *, hosts: frozenset[str] | None = LOOPBACK) -> Any:
    """The application over these directories; `hosts` None answers for any host name."""
    with explain_missing("starlette", "web", "tokenmill serve"):
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.base import BaseHTTPMiddleware
        from starlette.responses import FileResponse
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    from tokenmill.web import runs, tokenize
    from tokenmill.web.guard import explain_error, guard_hosts

    served = Served(tuple(_resolve_directory(path) for path in directories))

    async def show_page(_: Any) -> FileResponse:
        return FileResponse(STATIC / "index.html")

    return Starlette(
        routes=[
            Route("/", show_page),
            Mount("/static", StaticFiles(directory=STATIC)),
            *tokenize.make_routes(served),
            *runs.make_routes(served),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard_hosts(hosts))],
        exception_handlers={TokenmillError: explain_error, Exception: explain_error},
    )


def _resolve_directory(path: str | Path) -> Path:
    resolved = Path(path).resolve()
    if not resolved.is_dir():
        raise ConfigError(
            f"{path}: is not a directory; give the directories whose tokenizers and runs to show"
        )
    return resolved
