"""The web application: static files, the playground, the runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import PROGRESS
from tokenmill.datasets.ledger.manifest import MANIFEST
from tokenmill.datasets.remote import COPY
from tokenmill.errors import ConfigError, TokenmillError, explain_missing
from tokenmill.report.page import STYLES
from tokenmill.tokenizer.files.names import ANY_MODEL, ANY_TIKTOKEN, TOKENIZER
from tokenmill.training.merging import TRAINING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenmill.tokenizer.tokenizer import Tokenizer


STATIC = Path(__file__).parent / "static"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def create_app(directories: Sequence[str | Path], *, hosts: frozenset[str] | None = LOOPBACK) -> Any:
    """Return the application over these directories; with `hosts` None, it answers for any host name."""
    with explain_missing("starlette", "web", "tokenmill serve"):
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.base import BaseHTTPMiddleware
        from starlette.responses import FileResponse
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    from tokenmill.web.middleware import explain_error, guard_hosts
    from tokenmill.web.routes import make_playground_routes, make_run_routes

    served = Served(tuple(_resolve_directory(path) for path in directories))

    async def show_page(_: Any) -> FileResponse:
        return FileResponse(STATIC / "index.html")

    def make_style_route(path: Path) -> Route:
        async def show_style(_: Any) -> FileResponse:
            return FileResponse(path)

        return Route(f"/static/{path.name}", show_style)

    return Starlette(
        routes=[
            Route("/", show_page),
            *map(make_style_route, STYLES),
            Mount("/static", StaticFiles(directory=STATIC)),
            *make_playground_routes(served),
            *make_run_routes(served),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard_hosts(hosts))],
        exception_handlers={TokenmillError: explain_error, Exception: explain_error},
    )


def _resolve_directory(path: str | Path) -> Path:
    resolved = Path(path).resolve()
    if not resolved.is_dir():
        raise ConfigError(f"{path}: is not a directory; give directories with tokenizers and datasets")
    return resolved


TOKENIZER_FILES = (TOKENIZER, f"*{ANY_TIKTOKEN}", f"*{ANY_MODEL}")
RUN_FILES = (MANIFEST, PROGRESS, TRAINING)
DEEPEST = 4  # a served home directory must not be walked for minutes
MOST_FOUND = 200
KEPT_TOKENIZERS = 8


class NotServedError(TokenmillError):
    """The request names something outside the served directories, or nothing at all."""


@dataclass
class Served:
    """The served directories, and a few loaded tokenizers."""

    roots: tuple[Path, ...]
    _loaded: dict[str, Tokenizer] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def resolve(self, name: str) -> Path:
        """Return the real path under a served directory. Raise `NotServedError` for any other."""
        if "\0" in name:
            raise NotServedError("the path contains a NUL character")
        for root in self.roots:
            path = (root / name).resolve()
            if path.exists() and path.is_relative_to(root):
                return path
        shown = ", ".join(str(root) for root in self.roots)
        raise NotServedError(
            f"{name!r} is not under a served directory ({shown}); start the server with its directory"
        )

    def list_tokenizers(self) -> list[str]:
        """Return the name of each tokenizer below the served directories."""
        return [
            self._name_path(path.parent if path.name == TOKENIZER else path)
            for path in self._walk()
            if path.parent.name != COPY and any(map(path.match, TOKENIZER_FILES))
        ]

    def list_runs(self) -> list[str]:
        """Return the names of the directories that hold a dataset or a job."""
        return list({self._name_path(path.parent): None for path in self._walk() if path.name in RUN_FILES})

    def load_tokenizer(self, name: str) -> Tokenizer:
        """Return the tokenizer at a served path, kept while it is among the last few used."""
        from tokenmill.tokenizer.tokenizer import Tokenizer

        path = str(self.resolve(name))
        with self._lock:
            found = self._loaded.pop(path, None)
            if found is None:
                found = Tokenizer.load(path)
            self._loaded[path] = found
            while len(self._loaded) > KEPT_TOKENIZERS:
                self._loaded.pop(next(iter(self._loaded)))
            return found

    def _name_path(self, path: Path) -> str:
        root = next(root for root in self.roots if path.is_relative_to(root))
        return str(path.relative_to(root))

    def _walk(self) -> Iterator[Path]:
        """Yield the files of tokenizers and runs; hidden files and links are left out."""
        found = 0
        for root in self.roots:
            for folder, folders, files in os.walk(root):
                deep = len(Path(folder).relative_to(root).parts) >= DEEPEST
                folders[:] = [] if deep else sorted(name for name in folders if name[0] != ".")
                for path in (Path(folder, name) for name in sorted(files) if name[0] != "."):
                    wanted = path.name in RUN_FILES or any(map(path.match, TOKENIZER_FILES))
                    if wanted and not path.is_symlink():
                        yield path
                        found += 1
                    if found >= MOST_FOUND:
                        return
