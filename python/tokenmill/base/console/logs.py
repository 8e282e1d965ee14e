"""Logging under the name `tokenmill`: one handler on stderr, as plain text or JSON lines, from rank 0 only.

A program that has set up logging of its own keeps it: then we only set our level, and records go up to
its handlers.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from tokenmill.base.console.folding import fold_for
from tokenmill.base.hardware import world

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "tokenmill"
logger = logging.getLogger(NAME)
logger.addHandler(logging.NullHandler())


class StderrHandler(logging.StreamHandler[TextIO]):
    """Looks up `sys.stderr` for each record, so that a live progress bar can take its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        """Where lines go now."""
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """Ignored: the stream is whatever stderr is."""


class PlainFormatter(logging.Formatter):
    """`INFO: [Rank 3] message`; rank 0 speaks for the job and needs no label, but may have one."""

    def __init__(self, rank: int | None) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self.label = f"[Rank {rank}] " if rank else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name logging calls
        """The line, with one label at most."""
        if not record.message.startswith("[Rank "):
            record.message = self.label + record.message
        return fold_for(sys.stderr, super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, message, rank, and the record's own `fields`."""

    def __init__(self, rank: int | None) -> None:
        super().__init__()
        self.rank = rank

    def format(self, record: logging.LogRecord) -> str:
        """`{"time": "2026-01-02T03:04:05.678Z", "level": "INFO", "message": "...", ...}`."""
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
    """Set the level and the form; call it again to change them. Ranks above 0 log only errors."""
    level = logging.getLevelName(verbose_level.upper())
    logger.setLevel(level if world.speaks(environ) else max(level, logging.ERROR))
    ours = [handler for handler in logger.handlers if isinstance(handler, StderrHandler)]
    if not ours and _program_has_handlers() and not log_json:
        return
    handler = ours[0] if ours else StderrHandler()
    rank = world.find_rank(environ)
    handler.setFormatter(JsonFormatter(rank) if log_json else PlainFormatter(rank))
    if not ours:
        logger.addHandler(handler)
        # Records are shown once, by us.
        logger.propagate = False


def _program_has_handlers() -> bool:
    """Whether whoever runs us has set up logging already."""
    return bool(logging.getLogger().handlers)
