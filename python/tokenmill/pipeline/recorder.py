"""Report a running job: a bar or lines on stderr, `progress.json` and `events.jsonl` for watchers.

The files are not part of the dataset: no reader needs them, no hash covers them, both may be deleted.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import tokenmill
from tokenmill.base import words
from tokenmill.base.durable import EVENTS, PROGRESS, readable_json, temporary_name
from tokenmill.base.logs import logs_json
from tokenmill.base.machine import find_rank

logger = logging.getLogger("tokenmill.progress")
LINE_SECONDS = 30.0
REDRAW_SECONDS = 0.1
WRITE_SECONDS = 0.5
SAMPLE_SECONDS = 2.0


class Progress:
    """Show one stage of a job: a bar on a terminal, a line every 30 seconds elsewhere, from rank 0 only.

    `total` and the amounts are bytes of input unless `unit` names something else. `resumed` is the work of an
    earlier run, which counts as done but not towards the speed. `call` gets `(stage, done, total)` instead.

    >>> with Progress("Tokenizing", total=1000, show=False) as progress:
    ...     progress.advance(400, documents=3, tokens=90)
    >>> progress.done, progress.counts
    (400, {'documents': 3, 'tokens': 90})
    """

    def __init__(
        self,
        stage: str,
        total: int | None = None,
        *,
        unit: str = "bytes",
        show: bool = True,
        resumed: int = 0,
        call: Callable[[str, int, int | None], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stage, self.total, self.unit = stage, total, unit
        self.done = self._resumed = resumed
        self.counts: dict[str, int] = {}
        self.note = ""  # shown at the end of the line
        self._show = show and call is None and not find_rank()
        self._call = call
        self._clock = clock
        self._started = self._shown = clock()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._finished = False

    def __enter__(self) -> Self:
        if self._show and sys.stderr.isatty() and not logs_json():
            self._bar = _make_bar(self.stage, self.total, self.done)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, _trace: object) -> None:
        # The count may be less than the total: text is shorter than the file that holds it.
        self._finished = kind is None
        if self._bar:
            done = self.total if self._finished and self.total else self.done
            self._bar.update(self._bar.task_ids[0], completed=done, line=self._format_line(self._clock()))
            self._bar.stop()
            self._bar = None

    def advance(self, amount: int = 0, **counts: int) -> None:
        """Add completed work: `advance(block_bytes, documents=12, tokens=3400)`. Any thread may call it."""
        with self._lock:
            self.done += amount
            for name, count in counts.items():
                self.counts[name] = self.counts.get(name, 0) + count
            if self._call is not None:
                self._call(self.stage.lower(), self.done, self.total)
            now = self._clock()
            if not self._show or now - self._shown < (REDRAW_SECONDS if self._bar else LINE_SECONDS):
                return
            self._shown = now
            text = self._format_line(now)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=self.done, line=text)
        else:
            logger.info("%s: %s", self.stage, text, extra={"fields": self._measure(now)})

    def _measure(self, now: float) -> dict[str, float]:
        """Return the displayed numbers: done, rates per second, seconds left."""
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

    def _format_line(self, now: float) -> str:
        """Return the line after the bar, the most important part first: a narrow terminal cuts the end."""
        import psutil

        shown = self._measure(now)
        rate = shown[f"{self.unit}_per_second"]
        parts = [f"{100 * shown['fraction']:.0f} %"] if "fraction" in shown else []
        if "seconds_left" in shown:
            parts.append(f"{words.duration(shown['seconds_left'])} left")
        speed = words.size(rate) if self.unit == "bytes" else f"{words.number(rate)} {self.unit}"
        parts.append(f"{speed}/s")
        for name, count in self.counts.items():
            parts.append(f"{name} {words.number(count)} ({words.number(shown[f'{name}_per_second'])}/s)")
        parts.append(f"memory {words.size(psutil.Process().memory_info().rss)}")
        return ", ".join([*parts, self.note] if self.note else parts)


def _make_bar(stage: str, total: int | None, done: int) -> Any:
    """Return a running rich bar. Log lines are printed above it while it is shown."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    console = Console(stderr=True)
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)  # the remaining width
    line = TextColumn("{task.fields[line]}", table_column=rest)
    bar = BarColumn(bar_width=max(4, min(40, console.width // 8)))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), bar, line)
    bars = Bars(*columns, console=console, redirect_stdout=False, expand=True)
    bars.add_task(stage, total=total, completed=done, line="")
    bars.start()
    return bars


def format_now() -> str:
    """Return the current time: `2026-01-02T03:04:05.678+00:00`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Recorder:
    """Count and report. Any thread may call `count`. Without a directory, no files are written."""

    def __init__(
        self, root: Path | None, *, bytes_total: int | None, units_total: int, units_done: int = 0
    ) -> None:
        """Prepare to record. Nothing is written before the block is entered."""
        self._root = root
        self._run = os.urandom(6).hex()
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="tokenmill-progress", daemon=True)
        self._progress: Progress | None = None
        self.state: dict[str, Any] = {
            "state": "running",
            "phase": "planning",
            "documents": 0,
            "tokens": 0,
            "bytes": 0,
            "bytes_total": bytes_total,
            "units_done": units_done,
            "units_total": units_total,
            "started_at": format_now(),
            "updated_at": format_now(),
            "counter": 0,
            "pid": os.getpid(),
            "host": platform.node(),
            "rank": find_rank(),
            "error": None,
        }

    def __enter__(self) -> Self:
        if self._root is not None:
            self._root.mkdir(parents=True, exist_ok=True)
            self._write_progress()
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if self._root is None:
            return
        self._over.set()
        self._thread.join()
        state = "done" if kind is None else "failed"
        interrupted = kind is KeyboardInterrupt or getattr(error, "exit_code", None) == 75
        phase = "interrupted" if interrupted else state
        self.set(state=state, phase=phase, error=str(error) if error is not None else None)
        # A full disk must not hide the original error of the job.
        with suppress(OSError):
            self._write_progress()
            self.write_event("finish", state=phase, seconds=round(time.monotonic() - self._started, 3))

    def write_start(self, *, resumed: bool, threads: int, memory: int) -> None:
        """Write the first event of a run: command, versions, machine, budget."""
        import psutil

        # Only loaded packages, since others cannot affect the result.
        loaded = {name: sys.modules.get(name) for name in ("numpy", "pyarrow", "tokenizers", "transformers")}
        versions = {name: str(getattr(each, "__version__", "")) for name, each in loaded.items() if each}
        self.write_event(
            "start",
            command=sys.argv,
            resumed=resumed,
            versions={"python": platform.python_version(), "tokenmill": tokenmill.__version__, **versions},
            machine={
                "cpus": os.cpu_count(),
                "memory": psutil.virtual_memory().total,
                "host": platform.node(),
                "system": f"{platform.system()} {platform.release()}",
                "processor": platform.machine(),
            },
            budget={"memory": memory, "threads": threads},
        )

    def set(self, **values: Any) -> None:
        """Set values of the state: `set(phase="commit")`."""
        with self._lock:
            self.state |= values

    @contextmanager
    def show(self, progress: Progress) -> Iterator[None]:
        """Show the counts as progress during the block."""
        with progress:
            self._progress = progress
            yield
        self._progress = None

    def count(self, **amounts: int) -> None:
        """Add to the counters: `count(documents=12, tokens=3400, bytes=65536)`."""
        with self._lock:
            for name, amount in amounts.items():
                self.state[name] += amount
        if self._progress is not None:
            units, size = amounts.pop("units_done", 0), amounts.pop("bytes", 0)
            self._progress.advance(size if self._progress.unit == "bytes" else units, **amounts)

    def show_workers(self, text: str) -> None:
        """Show the load of the workers of a remote executor."""
        self.set(workers=text)
        if self._progress is not None:
            self._progress.note = text

    def write_event(self, kind: str, **fields: Any) -> None:
        """Append one line with one write, so that lines of several processes never mix."""
        if self._root is None:
            return
        line = readable_json({"event": kind, "at": format_now(), "run": self._run, **fields}, indent=None)
        with (self._root / EVENTS).open("ab", buffering=0) as file:
            file.write(line)

    def _beat(self) -> None:
        process, sampled = None, 0.0
        while not self._over.wait(WRITE_SECONDS):
            # Recording must not end a job. A full disk is reported when tokens are written.
            with suppress(OSError):
                self._write_progress()
                if time.monotonic() - sampled >= SAMPLE_SECONDS:
                    import psutil  # here, since most small jobs end before their first sample

                    sampled, process = time.monotonic(), process or psutil.Process()
                    self.write_event(
                        "sample",
                        rss=process.memory_info().rss,
                        cpu_percent=process.cpu_percent(),
                        disk_bytes=psutil.disk_usage(str(self._root)).used,
                    )

    def _write_progress(self) -> None:
        if self._root is None:
            return
        with self._lock:
            self.state |= {"counter": self.state["counter"] + 1, "updated_at": format_now()}
            text = json.dumps(self.state)
        temporary = temporary_name(self._root / PROGRESS)
        try:
            temporary.write_text(text)
            temporary.replace(self._root / PROGRESS)
        finally:
            temporary.unlink(missing_ok=True)
