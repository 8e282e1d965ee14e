"""Report a running job: a bar or lines on stderr, `progress.json` and `events.jsonl` for watchers.

Neither file is content: no reader needs them, no hash covers them, and both may be deleted.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import tokenmill
from tokenmill.base.durable import EVENTS, PROGRESS, readable_json, replace_file
from tokenmill.base.machine import find_rank, measure_host_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenmill.base.progress import Progress

PERIOD = 0.5
SAMPLE_PERIOD = 2.0


def format_now() -> str:
    """Return the present time: `2026-01-02T03:04:05.678+00:00`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Recorder:
    """Counts and reports; `count` may be called from any thread. Without a directory it writes no files."""

    def __init__(
        self, root: Path | None, *, bytes_total: int | None, units_total: int, units_done: int = 0
    ) -> None:
        """Prepare to record; nothing is written before the block is entered."""
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
        with self._lock:
            self.state |= {"state": state, "phase": phase, "error": str(error) if error is not None else None}
        # A full disk ends a job; it must not hide why the job ended.
        with suppress(OSError):
            self._write_progress()
            self.write_event("finish", state=phase, seconds=round(time.monotonic() - self._started, 3))

    def write_start(self, *, resumed: bool, threads: int, memory: int) -> None:
        """Write the first event of a run: command, versions, machine, budget."""
        # Of the packages that this process has loaded: no other has a part in the result.
        loaded = {name: sys.modules.get(name) for name in ("numpy", "pyarrow", "tokenizers", "transformers")}
        versions = {name: str(getattr(each, "__version__", "")) for name, each in loaded.items() if each}
        self.write_event(
            "start",
            command=sys.argv,
            resumed=resumed,
            versions={"python": platform.python_version(), "tokenmill": tokenmill.__version__, **versions},
            machine={
                "cpus": os.cpu_count(),
                "memory": measure_host_memory()[1],
                "host": platform.node(),
                "system": f"{platform.system()} {platform.release()}",
                "processor": platform.machine(),
            },
            budget={"memory": memory, "threads": threads},
        )

    def enter_phase(self, name: str) -> None:
        """Set the phase of the job."""
        with self._lock:
            self.state["phase"] = name

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

    def show_workers(self, words: str) -> None:
        """Show how busy the workers are, where other processes do the work."""
        with self._lock:
            self.state["workers"] = words
        if self._progress is not None:
            self._progress.note = words

    def write_event(self, kind: str, **fields: Any) -> None:
        """Append one line with one write, so that lines of several processes never mix."""
        if self._root is None:
            return
        line = readable_json({"event": kind, "at": format_now(), "run": self._run, **fields}, indent=None)
        handle = os.open(self._root / EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    def _beat(self) -> None:
        process, sampled = None, 0.0
        while not self._over.wait(PERIOD):
            # Recording must not end a job: a full disk is reported where tokens are written.
            with suppress(OSError):
                self._write_progress()
                if time.monotonic() - sampled >= SAMPLE_PERIOD:
                    import psutil  # here, since most small jobs end before their first sample

                    sampled, process = time.monotonic(), process or psutil.Process()
                    self.write_event(
                        "sample",
                        rss=process.memory_info().rss,
                        cpu_percent=process.cpu_percent(),
                        disk_bytes=psutil.disk_usage(str(self._root)).used,
                    )

    def _write_progress(self) -> None:
        if self._root is not None:
            with self._lock:
                self.state |= {"counter": self.state["counter"] + 1, "updated_at": format_now()}
                text = json.dumps(self.state)
            replace_file(self._root / PROGRESS, text.encode())
