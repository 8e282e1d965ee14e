"""Progress on stderr: a bar on a terminal, a plain line every 30 seconds elsewhere, nothing from rank 1 on.

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

from tokenmill.base.console import words
from tokenmill.base.hardware import world

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

logger = logging.getLogger("tokenmill.progress")
INTERVAL = 30.0
REDRAW = 0.1


class Progress:
    """Counts what is done and reports it; `advance` may be called from any thread.

    `total` and the amounts are bytes of input unless `unit` names something else; `resumed` is what an
    earlier run has done already, which counts as done but not towards the speed.
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
        self.note = ""  # what else there is to say, at the end of the line
        self._resumed = resumed
        self._show = show and world.speaks(environ)
        self._interval = interval
        self._clock = clock
        self._started = self._told = clock()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._finished = False

    def __enter__(self) -> Self:
        if self._show and sys.stderr.isatty() and not _logs_json():
            self._bar = _Bar(self.description, self.total, self.done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was counted may be less than what was expected: text without the quotes around it.
        self._finished = kind is None
        self.close()

    def advance(self, amount: int = 0, **counts: int) -> None:
        """Add to what is done: `advance(block_bytes, documents=12, tokens=3400)`."""
        with self._lock:
            self.done += amount
            for name, count in counts.items():
                self.counts[name] = self.counts.get(name, 0) + count
            now = self._clock()
            if not self._show or now - self._told < (REDRAW if self._bar else self._interval):
                return
            self._told = now
            text = self.line(now, self._bar.room if self._bar else None)
        if self._bar:
            self._bar.draw(self.done, text)
        else:
            logger.info("%s: %s", self.description, text, extra={"fields": self.figures(now)})

    def close(self) -> None:
        """Remove the bar; the end of a job has lines of its own."""
        if self._bar:
            self._bar.stop(
                self.total if self._finished and self.total else self.done,
                self.line(self._clock(), self._bar.room),
            )
            self._bar = None

    def figures(self, now: float | None = None) -> dict[str, float]:
        """Everything that is shown, as numbers: done, rates per second, seconds left."""
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

    def line(self, now: float | None = None, room: int | None = None) -> str:
        """`"45 %, 12.3 MB/s, documents 3.4 k, tokens 1.2 M (3.1 M/s), 01:23 left, memory 512.0 MB"`.

        Where there is room for only so many characters, what matters least is left out.
        """
        parts = self._parts(self.figures(now))
        for name in ("memory", "note", *self.counts, "rate", "left"):
            if room is None or len(", ".join(parts.values())) <= room:
                break
            parts.pop(name, None)
        return ", ".join(parts.values())

    def _parts(self, shown: Mapping[str, float]) -> dict[str, str]:
        """What a line may say, by name, in the order in which it says it."""
        rate = shown[f"{self.unit}_per_second"]
        parts = {"done": f"{100 * shown['fraction']:.0f} %"} if "fraction" in shown else {}
        bytes_rate, other_rate = f"{words.size(rate)}/s", f"{words.number(rate)} {self.unit}/s"
        parts["rate"] = bytes_rate if self.unit == "bytes" else other_rate
        for name, count in self.counts.items():
            speed = words.number(shown[f"{name}_per_second"])
            parts[name] = f"{name} {words.number(count)} ({speed}/s)"
        if "seconds_left" in shown:
            parts["left"] = f"{words.duration(shown['seconds_left'])} left"
        parts["memory"] = f"memory {words.size(_measure_resident())}"
        if self.note:
            parts["note"] = self.note
        return parts


class _Bar:
    """A rich bar; while it lives, stderr goes through it, so that log lines stay above it."""

    def __init__(self, description: str, total: int | None, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as Bars

        self._console = Console(stderr=True)
        self._description = description
        self._column = BarColumn(bar_width=self._width)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            self._column,
            TextColumn("{task.fields[line]}"),
        )
        self._bars = Bars(*columns, console=self._console, redirect_stdout=False)
        self._task = self._bars.add_task(description, total=total, completed=done, line="")
        self._bars.start()

    @property
    def _width(self) -> int:
        """An eighth of the terminal, as it is now: rich would fit the text in first and leave no bar."""
        return max(4, min(40, self._console.width // 8))

    @property
    def room(self) -> int:
        """Characters that are left for the line, beside spinner, description, bar and the spaces between."""
        from rich.cells import cell_len

        return self._console.width - 1 - cell_len(self._description) - self._width - 3

    def draw(self, done: int, line: str) -> None:
        self._column.bar_width = self._width
        self._bars.update(self._task, completed=done, line=line)

    def stop(self, done: int, line: str) -> None:
        self.draw(done, line)
        self._bars.stop()


def _logs_json() -> bool:
    """Whether lines are for a machine, which has no use for a bar."""
    from tokenmill.base.console.logs import JsonFormatter

    handlers = logging.getLogger("tokenmill").handlers
    return any(isinstance(handler.formatter, JsonFormatter) for handler in handlers)


def _measure_resident() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)
