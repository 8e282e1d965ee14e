"""The web application: static files, the playground, the runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import PROGRESS
from tokenmill.datasets.ledger.manifest import MANIFEST
from tokenmill.datasets.remote import COPY
from tokenmill.errors import ConfigError, TokenmillError, explain_missing
from tokenmill.report.page import STYLES
from tokenmill.tokenizer.files.names import ANY_MODEL, ANY_TIKTOKEN, TOKENIZER
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.merging import TRAINING
from tokenmill.web.middleware import RequestError, explain_error, guard_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STATIC = Path(__file__).parent / "static"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
TOKENIZER_FILES = (TOKENIZER, f"*{ANY_TIKTOKEN}", f"*{ANY_MODEL}")
RUN_FILES = (MANIFEST, PROGRESS, TRAINING)
DEEPEST = 4  # a served home directory must not be walked for minutes
MOST_FOUND = 200


def create_app(directories: Sequence[str | Path], *, hosts: frozenset[str] | None = LOOPBACK) -> Any:
    """Return the application over these directories; with `hosts` None, it answers for any host name."""
    with explain_missing("starlette", "web", "tokenmill serve"):
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.base import BaseHTTPMiddleware
        from starlette.responses import FileResponse
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    from tokenmill.web.routes import make_playground_routes, make_run_routes

    for path in directories:
        if not Path(path).is_dir():
            raise ConfigError(f"{path}: is not a directory; give directories with tokenizers and datasets")

    async def send_file(path: Path, _: Any) -> FileResponse:
        return FileResponse(path)

    served = Served(tuple(Path(path).resolve() for path in directories))
    files = {"/": STATIC / "index.html"} | {f"/static/{path.name}": path for path in STYLES}
    return Starlette(
        routes=[
            *(Route(url, partial(send_file, path)) for url, path in files.items()),
            Mount("/static", StaticFiles(directory=STATIC)),
            *make_playground_routes(served),
            *make_run_routes(served),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard_hosts(hosts))],
        exception_handlers={TokenmillError: explain_error, Exception: explain_error},
    )


_load_tokenizer = lru_cache(maxsize=8)(Tokenizer.load)


@dataclass(frozen=True)
class Served:
    """The served directories."""

    roots: tuple[Path, ...]

    def resolve(self, name: str) -> Path:
        """Return the real path under a served directory. Raise `RequestError` for any other."""
        for root in self.roots if "\0" not in name else ():
            path = (root / name).resolve()
            if path.exists() and path.is_relative_to(root):
                return path
        shown = ", ".join(map(str, self.roots))
        raise RequestError(
            404, f"{name!r} is not under a served directory ({shown}); start the server with its directory"
        )

    def load_tokenizer(self, name: str) -> Tokenizer:
        """Return the tokenizer at a served path, cached while it is among the last few used."""
        return _load_tokenizer(str(self.resolve(name)))

    def list_tokenizers(self) -> list[str]:
        """Return the name of each tokenizer below the served directories."""
        found = (path for path in self._walk() if path.name not in RUN_FILES and path.parent.name != COPY)
        return [self._name_path(path.parent if path.name == TOKENIZER else path) for path in found]

    def list_runs(self) -> list[str]:
        """Return the names of the directories that hold a dataset or a job."""
        found = (path.parent for path in self._walk() if path.name in RUN_FILES)
        return list(dict.fromkeys(map(self._name_path, found)))

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
