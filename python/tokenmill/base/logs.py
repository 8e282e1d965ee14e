"""Log under the name `tokenmill`: one handler on stderr, from rank 0 only.

If the program has set up logging, only our level is set, and records go to its handlers.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import IO
from unicodedata import east_asian_width

from tokenmill.base.machine import find_rank

logger = logging.getLogger("tokenmill")
logger.addHandler(logging.NullHandler())
translate: Callable[[str], str] = str  # the command replaces Python parameters by flags


def wrap(stream: IO[str], text: str) -> str:
    """Wrap `text` at words to the width of a terminal; a file or a pipe gets it unchanged."""
    if not stream.isatty():
        return text
    words = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False)
    # A wide character takes two columns, so it is counted twice.
    wide = "".join(each + "\0" * (east_asian_width(each) in "WF") for each in text)
    return "\n".join(map(words.fill, wide.split("\n"))).replace("\0", "")


class StderrHandler(logging.StreamHandler[IO[str]]):
    """Write to the current `sys.stderr`, which a progress bar may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.stream = sys.stderr
        super().emit(record)


class RankFormatter(logging.Formatter):
    """Format `INFO: [Rank 3] message`; rank 0 has no label."""

    def __init__(self, rank: int | None) -> None:
        super().__init__("%(levelname)s: %(message)s")
        self.label = f"[Rank {rank}] " if rank else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name logging calls
        """Return the line with at most one label."""
        if not record.message.startswith("[Rank "):
            record.message = self.label + record.message
        return wrap(sys.stderr, translate(super().formatMessage(record)))


def configure(verbose_level: str = "INFO", environ: Mapping[str, str] = os.environ) -> None:
    """Set the level and the format. Ranks above 0 log only errors."""
    level, rank = logging.getLevelName(verbose_level.upper()), find_rank(environ)
    logger.setLevel(max(level, logging.ERROR) if rank else level)
    ours = [handler for handler in logger.handlers if isinstance(handler, StderrHandler)]
    if not ours and _program_has_handlers():
        return
    handler = ours[0] if ours else StderrHandler()
    handler.setFormatter(RankFormatter(rank))
    if not ours:
        logger.addHandler(handler)
        # Avoid duplicate output by handlers of the root logger.
        logger.propagate = False


def _program_has_handlers() -> bool:
    return bool(logging.getLogger().handlers)
