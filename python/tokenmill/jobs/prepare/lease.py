"""The leader's three small files in the output directory: its lock, its sign of life, its failure.

Only the leader writes them, and only it removes them. The lock saves work and never protects
correctness: two leaders at once would still write the same bytes and publish them by rename.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from tokenmill.base.errors import EXIT_FAILED, LeaderError
from tokenmill.base.platform import try_lock
from tokenmill.base.run_files import PROGRESS, parse_object, read_object, replace_file
from tokenmill.jobs.prepare.launch import host_clock, this_host

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.jobs.prepare.launch import Launch
    from tokenmill.jobs.prepare.mirror import Mirror

LOCK, MARKER, FAILURE = ".leader.lock", ".leader.alive.json", ".leader.failure.json"
BEAT_SECONDS = 1.0


class Lease:
    """The right to lead in one output directory: `take`, then `begin`, then `release`."""

    def __init__(
        self, root: Path, launch: Launch, fields: dict[str, Any], mirror: Mirror | None = None
    ) -> None:
        self._mirror = mirror
        self.root = root
        self.launch = launch
        self.fields = fields
        self.token = uuid.uuid4().hex
        self._lock: IO[bytes] | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, *, patience: float = 0.0) -> bool:
        """Take the lock if nobody holds it; `patience` is for how long to try."""
        until = time.monotonic() + patience
        while not self._take_once():
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        return True

    def _take_once(self) -> bool:
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / LOCK
        file = path.open("ab")
        if try_lock(file) is False:  # without locks, signs of life alone decide
            file.close()
            return False
        # The one before us may have removed the file between our open and our lock, or do so now.
        try:
            same = path.stat().st_ino == os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            same = False
        if not same:
            file.close()
            return False
        self._lock = file
        return True

    def begin(self) -> None:
        """Show the first sign of life, forget the failure of the one before, and go on showing."""
        self._show(0)
        (self.root / FAILURE).unlink(missing_ok=True)
        if self._mirror is not None:
            self._mirror.hide(FAILURE)
        self._thread = threading.Thread(target=self._beat, name="tokenmill-leader", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        beat = 0
        while not self._stop.wait(BEAT_SECONDS):
            beat += 1
            # A full disk stops the signs of life for a while, not the work.
            with suppress(OSError):
                if not self._is_ours():
                    return
                self._show(beat)

    def _is_ours(self) -> bool:
        """Whether the last sign of life is ours: who takes a leader's place shows another."""
        try:
            return parse_object((self.root / MARKER).read_bytes()).get("token") == self.token
        except FileNotFoundError:
            return False

    def check(self) -> None:
        """Raise `LeaderError` if another process has taken our place, and is perhaps done already."""
        if not self._is_ours():
            raise LeaderError(
                f"another process took over in {self.root} while this one (pid {os.getpid()}) showed no sign "
                "of life: it was stopped, or its host or file system was. Nothing is lost; run the same "
                "command again to open the dataset"
            )

    def _show(self, beat: int) -> None:
        self._publish(MARKER, {**self._signature(), "beat": beat})

    def _signature(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "rank": self.launch.rank,
            "launch": self.launch.name,
            "host": this_host(),
            "pid": os.getpid(),
            "fields": self.fields,
        }

    def fail(self, error: BaseException) -> None:
        """Leave the cause for those who wait."""
        kind = type(error).__name__
        cause = f"{kind}: {error}" if str(error) else kind
        code = getattr(error, "exit_code", EXIT_FAILED)
        with suppress(OSError):
            if not self._is_ours():  # those who wait, wait for another
                return
            self._publish(
                FAILURE, {**self._signature(), "cause": cause, "exit_code": code, "at": host_clock()}
            )

    def _publish(self, name: str, value: dict[str, Any]) -> None:
        data = json.dumps(value, default=str).encode()
        replace_file(self.root / name, data)
        if self._mirror is not None and name == MARKER:
            self._mirror.beat(data)
        elif self._mirror is not None:
            self._mirror.show(name, data)

    def release(self) -> None:
        """Stop, remove the marker and the lock, in this order."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._lock is not None:
            if self._may_clear():
                self._clear()
            self._lock.close()
            self._lock = None

    def _may_clear(self) -> bool:
        """Whether what is there is ours to remove, and not that of the one who took our place."""
        try:
            return self._thread is None or self._is_ours()
        except OSError:
            return True

    def _clear(self) -> None:
        if self._mirror is not None:
            self._mirror.hide(MARKER, PROGRESS)
        for name in (MARKER, LOCK):
            with suppress(OSError):
                (self.root / name).unlink(missing_ok=True)


def read_marker(root: Path) -> dict[str, Any] | None:
    """The leader's last sign of life, or None."""
    return read_object(root / MARKER)


def read_failure(root: Path) -> dict[str, Any] | None:
    """The cause that the last leader left, or None."""
    return read_object(root / FAILURE)
