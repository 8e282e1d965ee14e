"""The output directory of a job: its lock, the errors of its file system, and its progress.

A progress file is not part of a dataset: no reader needs it, no hash covers it, and it may be deleted.
Training uses this module too, so it does not import `tokenmill.datasets`.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from tokenmill.base import words
from tokenmill.base.durable import PROGRESS, temporary_name
from tokenmill.base.machine import find_rank
from tokenmill.errors import ConfigError, InterruptedJobError, TokenmillError
from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.output")
LOCK = ".lock"
LINE_SECONDS = 30.0
WRITE_SECONDS = 1.0
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


def read_budget(execution: ExecutionConfig) -> tuple[int, int]:
    """Return the threads and the bytes of memory that this process may use."""
    return execution.threads or 1, execution.memory_budget or (256 << 20)


@contextmanager
def lock_dataset(root: Path) -> Iterator[None]:
    """Hold the lock of a dataset directory. Every job that writes into a dataset takes it."""
    from filelock import FileLock, Timeout  # here, since importing it takes 50 ms

    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        logger.info("Waiting for another process that is preparing the same dataset...")
        lock.acquire()
    try:
        yield
    finally:
        # A process that waits for the removed file opens a new one.
        with suppress(OSError):
            (root / LOCK).unlink()
        lock.release()


@contextmanager
def explain_faults(output: str | Path) -> Iterator[None]:
    """Raise a system `OSError` as a `ConfigError` or an `InterruptedJobError` that names the output."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TokenmillError):
            raise
        words = error.strerror or type(error).__name__
        where = f"{error.filename}: {words}" if error.filename else words
        in_the_way = error.errno == errno.EEXIST and not Path(output).is_dir()
        if error.errno in _REFUSED or in_the_way:
            raise ConfigError(
                f"{output} cannot be written ({where}). Get permission to write there, or name another output"
            ) from error
        raise InterruptedJobError(
            f"{output}: the system failed while a job wrote there ({where}). What is finished is safe: fix "
            "the cause, such as a full disk or a removed directory, and run the same command again"
        ) from error


class _Stage(NamedTuple):
    """One stage, and the counts at its start, which do not count towards its speed."""

    name: str
    total: int | None
    unit: str
    start: dict[str, Any]
    at: float

    @property
    def key(self) -> str:
        return "bytes" if self.unit == "bytes" else "units_done"

    def format_line(self, state: dict[str, Any], now: float, *, finished: bool = False) -> str:
        """Return `"40 %, 00:15 left, 12.0 MB/s, documents 3.4 k (340/s)"`, the most important part first."""
        elapsed, done = max(1e-9, now - self.at), state[self.key]
        rate, parts = (done - self.start[self.key]) / elapsed, []
        if self.total:
            # The count may be less than the total: text is shorter than the file that holds it.
            part = 1 if finished else min(1, done / self.total)
            parts.append(f"{100 * part:.0f} %")
            if rate > 0:
                parts.append(f"{words.duration((1 - part) * self.total / rate)} left")
        speed = words.size(rate) if self.unit == "bytes" else f"{words.number(rate)} {self.unit}"
        parts.append(f"{speed}/s")
        counts = {name: state[name] - self.start[name] for name in ("documents", "tokens")}
        parts += [
            f"{name} {words.number(count)} ({words.number(count / elapsed)}/s)"
            for name, count in counts.items()
            if count
        ]
        return ", ".join(parts)


class Progress:
    """Count the work of a job and show its stages, from rank 0 only.

    A stage is a bar on a terminal, and a line every 30 seconds elsewhere. With `root`, the counts are also
    written there. `state` has the initial counts. `call` gets `(stage, done, total)` instead.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        show: bool = True,
        call: Callable[[str, int, int | None], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **state: Any,
    ) -> None:
        self.state: dict[str, Any] = {
            "state": "running",
            "phase": "planning",
            **dict.fromkeys(("documents", "tokens", "bytes", "units_done"), 0),
            "pid": os.getpid(),
            "host": platform.node(),
            "error": None,
            **state,
        }
        self._root = root
        self._show = show and call is None and not find_rank()
        self._call = call
        self._clock = clock
        self._written = self._shown = clock()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._stage: _Stage | None = None

    def __enter__(self) -> Self:
        if self._root is not None:
            self._root.mkdir(parents=True, exist_ok=True)
        self._write()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        interrupted = kind is KeyboardInterrupt or getattr(error, "exit_code", None) == 75
        state = "done" if kind is None else "failed"
        phase = "interrupted" if interrupted else state
        self.state |= {"state": state, "phase": phase, "error": None if error is None else str(error)}
        self._write()

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str = "bytes") -> Iterator[None]:
        """Show the counts of the block. `unit` is "bytes", or what `units_done` counts."""
        self.state["phase"], self._shown = name.lower(), self._clock()
        stage = self._stage = _Stage(name, total, unit, dict(self.state), self._shown)
        if self._show and sys.stderr.isatty():
            self._bar = _make_bar(name, total)
        try:
            yield
            self._update_bar(stage, finished=True)
        finally:
            if self._bar is not None:
                self._bar.stop()
            self._stage = self._bar = None

    def count(self, **amounts: int) -> None:
        """Add to the counts: `count(documents=12, tokens=3400, bytes=65536)`. Any thread may call it."""
        with self._lock:
            for name, amount in amounts.items():
                self.state[name] += amount
            now, stage = self._clock(), self._stage
            if now - self._written >= WRITE_SECONDS:
                self._written = now
                self._write()
            if stage is None:
                return
            if self._call is not None:
                self._call(stage.name.lower(), self.state[stage.key], stage.total)
            self._update_bar(stage)
            if self._show and self._bar is None and now - self._shown >= LINE_SECONDS:
                self._shown = now
                logger.info("%s: %s", stage.name, stage.format_line(self.state, now))

    def _update_bar(self, stage: _Stage, *, finished: bool = False) -> None:
        if self._bar is not None:
            done = stage.total if finished else self.state[stage.key]
            line = stage.format_line(self.state, self._clock(), finished=finished)
            self._bar.update(self._bar.task_ids[0], completed=done, line=line)

    def _write(self) -> None:
        """Write the file. A full disk must not end a job or hide its error."""
        if self._root is None:
            return
        with suppress(OSError):
            temporary = temporary_name(self._root / PROGRESS)
            try:
                temporary.write_text(json.dumps(self.state))
                temporary.replace(self._root / PROGRESS)
            finally:
                temporary.unlink(missing_ok=True)


def _make_bar(name: str, total: int | None) -> Any:
    """Return a running rich bar. Log lines are printed above it while it is shown."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars
    from rich.table import Column

    console = Console(stderr=True)
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)  # the remaining width
    line = TextColumn("{task.fields[line]}", table_column=rest)
    bar = BarColumn(min(16, console.width // 8))
    bars = Bars("{task.description}", bar, line, console=console, redirect_stdout=False, expand=True)
    bars.add_task(name, total=total, line="")
    bars.start()
    return bars
