"""Check every request (host, origin, size of the body) and turn errors into answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationError

from tokenmill.errors import TokenmillError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

logger = logging.getLogger("tokenmill.web")

LARGEST_BODY = 16 << 20
# The page loads its own files and talks to its own server; a report is one file with inline styles.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestError(TokenmillError):
    """The request itself is wrong; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Body(BaseModel, strict=True):
    """The JSON object of a request."""

    tokenizer: str
    text: str = ""
    special: Literal["text", "parse"] = "text"
    id: int = 0


async def read_body(request: Request) -> Body:
    """Return the body of a request. Raise `RequestError` if it is too large or invalid."""
    from starlette.requests import ClientDisconnect

    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > LARGEST_BODY:
                raise RequestError(
                    413, f"the request is larger than {LARGEST_BODY >> 20} MiB; send a shorter text"
                )
        return Body.model_validate_json(content)
    except ClientDisconnect:
        raise RequestError(400, "the request ended before its body was complete") from None
    except ValidationError as error:
        raise RequestError(400, f"the body is not a valid request: {error}") from None


def answer(
    work: Callable[[Any], Any], read: Callable[[Request], Awaitable[Body]] | None = None
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that calls `work` in a thread, with the request or what `read` makes of it."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    async def respond(request: Request) -> Response:
        given = request if read is None else await read(request)
        return JSONResponse(await run_in_threadpool(work, given))

    return respond


def parse_number(text: str, name: str) -> int:
    """Return a non-negative integer. Raise `RequestError` for any other text."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise RequestError(400, f"{text!r} is not a {name}; expected digits")
    return int(text)


def guard_hosts(hosts: frozenset[str] | None) -> Callable[..., Awaitable[Response]]:
    """Return a middleware that answers only these hosts (DNS rebinding) and pages of the same origin."""
    from starlette.responses import JSONResponse

    async def middleware(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if hosts is not None and request.url.hostname not in hosts:
            return JSONResponse({"error": f"this server does not answer for {request.url.hostname!r}"}, 421)
        if request.url.path != "/" and _is_cross_site(request):
            return JSONResponse({"error": "another site may not send requests to this server"}, 403)
        response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return middleware


def _is_cross_site(request: Request) -> bool:
    """Return True if a page of another origin sent the request, by the headers of current browsers."""
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host')}"
    site = request.headers.get("sec-fetch-site", "none")
    return site not in {"same-origin", "none"} or origin not in {None, own}


async def explain_error(request: Request, error: Exception) -> Response:
    """Answer with the message of an error that users can fix; log any other."""
    from starlette.responses import JSONResponse

    if isinstance(error, TokenmillError):
        return JSONResponse({"error": str(error)}, getattr(error, "status", 422))
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "internal server error; the log of the server has the details"}, 500)
