"""Log under the name `tokenmill`: one handler on stderr, plain text or JSON lines, from rank 0 only.

If the program has set up logging, only our level is set, and records go to its handlers.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from typing import IO, Any

from tokenmill.base.machine import find_rank

logger = logging.getLogger("tokenmill")
logger.addHandler(logging.NullHandler())


def wrap(stream: IO[str], text: str) -> str:
    """Wrap `text` at words to the width of a terminal; a file or a pipe gets it unchanged."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):  # not a descriptor, or closed
        width = 0
    if not width or all(len(line) < width // 2 for line in text.split("\n")):
        return text
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False)
    with console.capture() as captured:
        console.print(Text.from_ansi(text))
    return captured.get().rstrip("\n")


class StderrHandler(logging.Handler):
    """Write to the current `sys.stderr`, which a progress bar may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except (OSError, ValueError):  # closed, or a broken pipe
            self.handleError(record)


class PlainFormatter(logging.Formatter):
    """Format `INFO: [Rank 3] message`; rank 0 has no label."""

    def __init__(self, rank: int | None) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self.label = f"[Rank {rank}] " if rank else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name logging calls
        """Return the line with at most one label."""
        if not record.message.startswith("[Rank "):
            record.message = self.label + record.message
        return wrap(sys.stderr, super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """Format a record as a JSON object: time, level, message, rank and its own `fields`."""

    def __init__(self, rank: int | None) -> None:
        super().__init__()
        self.rank = rank

    def format(self, record: logging.LogRecord) -> str:
        """Return `{"time": "2026-01-02T03:04:05.678Z", "level": "INFO", "message": "...", ...}`."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if self.rank is not None:
            line["rank"] = self.rank
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(
    verbose_level: str = "INFO", *, log_json: bool = False, environ: Mapping[str, str] = os.environ
) -> None:
    """Set the level and the format. Ranks above 0 log only errors."""
    level, rank = logging.getLevelName(verbose_level.upper()), find_rank(environ)
    logger.setLevel(max(level, logging.ERROR) if rank else level)
    ours = [handler for handler in logger.handlers if isinstance(handler, StderrHandler)]
    if not ours and _program_has_handlers() and not log_json:
        return
    handler = ours[0] if ours else StderrHandler()
    handler.setFormatter(JsonFormatter(rank) if log_json else PlainFormatter(rank))
    if not ours:
        logger.addHandler(handler)
        # Avoid duplicate output by handlers of the root logger.
        logger.propagate = False


def logs_json() -> bool:
    """Return True if records are logged as JSON lines."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logger.handlers)


def _program_has_handlers() -> bool:
    return bool(logging.getLogger().handlers)
