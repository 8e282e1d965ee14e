"""Show progress on stderr: a bar on a terminal, a line every 30 seconds elsewhere, from rank 0 only.

>>> with Progress("Tokenizing", total=1000, show=False) as progress:
...     progress.advance(400, documents=3, tokens=90)
>>> progress.done, progress.counts
(400, {'documents': 3, 'tokens': 90})
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from tokenmill.base import words
from tokenmill.base.machine import is_main_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

logger = logging.getLogger("tokenmill.progress")
INTERVAL = 30.0
REDRAW = 0.1


class Progress:
    """Count what is done and show it; `advance` may be called from any thread.

    `total` and the amounts are bytes of input unless `unit` names something else. `resumed` is the work of an
    earlier run, which counts as done but not towards the speed.
    """

    def __init__(
        self,
        description: str,
        total: int | None = None,
        *,
        unit: str = "bytes",
        show: bool = True,
        resumed: int = 0,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.description = description
        self.total = total
        self.unit = unit
        self.done = resumed
        self.counts: dict[str, int] = {}
        self.note = ""  # shown at the end of the line
        self._resumed = resumed
        self._show = show and is_main_rank(environ)
        self._interval = interval
        self._clock = clock
        self._started = self._shown = clock()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._finished = False

    def __enter__(self) -> Self:
        if self._show and sys.stderr.isatty() and not _logs_json():
            self._bar = _make_bar(self.description, self.total, self.done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The count may be less than the total: text is shorter than the file that holds it.
        self._finished = kind is None
        if self._bar:
            done = self.total if self._finished and self.total else self.done
            self._bar.update(self._bar.task_ids[0], completed=done, line=self.line())
            self._bar.stop()
            self._bar = None

    def advance(self, amount: int = 0, **counts: int) -> None:
        """Add to what is done: `advance(block_bytes, documents=12, tokens=3400)`."""
        with self._lock:
            self.done += amount
            for name, count in counts.items():
                self.counts[name] = self.counts.get(name, 0) + count
            now = self._clock()
            if not self._show or now - self._shown < (REDRAW if self._bar else self._interval):
                return
            self._shown = now
            text = self.line(now)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self.done, line=text)
        else:
            logger.info("%s: %s", self.description, text, extra={"fields": self.figures(now)})

    def figures(self, now: float | None = None) -> dict[str, float]:
        """Return what is shown as numbers: done, rates per second, seconds left."""
        now = self._clock() if now is None else now
        elapsed = max(1e-9, now - self._started)
        rate = (self.done - self._resumed) / elapsed
        shown: dict[str, float] = {self.unit: self.done, f"{self.unit}_per_second": rate}
        for name, count in self.counts.items():
            shown |= {name: count, f"{name}_per_second": count / elapsed}
        if self.total:
            shown["fraction"] = 1.0 if self._finished else min(1.0, self.done / self.total)
            if rate > 0:
                shown["seconds_left"] = 0.0 if self._finished else max(0, self.total - self.done) / rate
        return shown

    def line(self, now: float | None = None) -> str:
        """Return the line beside the bar, the most important part first: a narrow terminal cuts the end."""
        import psutil

        shown = self.figures(now)
        rate = shown[f"{self.unit}_per_second"]
        parts = [f"{100 * shown['fraction']:.0f} %"] if "fraction" in shown else []
        if "seconds_left" in shown:
            parts.append(f"{words.duration(shown['seconds_left'])} left")
        parts.append(
            f"{words.size(rate)}/s" if self.unit == "bytes" else f"{words.number(rate)} {self.unit}/s"
        )
        for name, count in self.counts.items():
            speed = words.number(shown[f"{name}_per_second"])
            parts.append(f"{name} {words.number(count)} ({speed}/s)")
        parts.append(f"memory {words.size(psutil.Process().memory_info().rss)}")
        return ", ".join([*parts, self.note] if self.note else parts)


def _make_bar(description: str, total: int | None, done: int) -> Any:
    """Return a running rich bar; log lines are printed above it while it is shown."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    console = Console(stderr=True)
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)  # what the other columns leave
    line = TextColumn("{task.fields[line]}", table_column=rest)
    bar = BarColumn(bar_width=max(4, min(40, console.width // 8)))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), bar, line)
    bars = Bars(*columns, console=console, redirect_stdout=False, expand=True)
    bars.add_task(description, total=total, completed=done, line="")
    bars.start()
    return bars


def _logs_json() -> bool:
    from tokenmill.base.logs import JsonFormatter

    handlers = logging.getLogger("tokenmill").handlers
    return any(isinstance(handler.formatter, JsonFormatter) for handler in handlers)
