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
from contextlib import contextmanager, nullcontext, suppress
from typing import IO, TYPE_CHECKING, Any

from tokenmill.base.durable import ReplacedError, guard
from tokenmill.base.platform import try_lock
from tokenmill.base.run_files import PROGRESS, parse_object, read_object, replace_file
from tokenmill.errors import EXIT_FAILED
from tokenmill.pipeline.launch import identify_host, read_host_clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenmill.pipeline.launch import Launch
    from tokenmill.pipeline.mirror import Mirror

LOCK, MARKER, FAILURE = ".leader.lock", ".leader.alive.json", ".leader.failure.json"
BEAT_SECONDS = 1.0


class Lease:
    """The right to lead in one output directory: `take`, then `lead`, then `release`."""

    def __init__(
        self, root: Path, launch: Launch, fields: dict[str, Any], mirror: Mirror | None = None
    ) -> None:
        self._mirror = mirror
        self.root = root
        self.launch = launch
        self.fields = fields
        self.token = uuid.uuid4().hex
        self.exclusive = True
        """Whether the file system has locks, so that nobody else can lead while we hold ours."""
        self._lock: IO[bytes] | None = None
        self._sign: IO[bytes] | None = None
        self._stop = threading.Event()

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
        locked = try_lock(file)
        if locked is False:
            file.close()
            return False
        self.exclusive = bool(locked)
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

    @contextmanager
    def lead(self) -> Iterator[None]:
        """While this lasts, signs of life are shown; an error that ends it is left for those who wait."""
        self._show(0)
        if not self.exclusive:
            self._hold_sign()
        (self.root / FAILURE).unlink(missing_ok=True)
        if self._mirror is not None:
            self._mirror.hide(FAILURE)
        self._stop.clear()
        thread = threading.Thread(target=self._beat, name="tokenmill-leader", daemon=True)
        thread.start()
        try:
            with nullcontext() if self.exclusive else guard(self.root, self.check):
                yield
        except ReplacedError:
            raise
        except BaseException as error:
            self._leave_failure(error)
            raise
        finally:
            self._stop.set()
            thread.join()

    def check(self) -> None:
        """Raise `ReplacedError` if the sign of life is not ours: nothing of ours may be published then."""
        marker = read_marker(self.root)
        if marker is None or marker.get("token") != self.token:
            raise ReplacedError

    def _beat(self) -> None:
        beat = 0
        while not self._stop.wait(BEAT_SECONDS):
            beat += 1
            # A full disk stops the signs of life for a while, not the work.
            with suppress(OSError):
                if self.exclusive:
                    self._show(beat)
                else:
                    self._renew(beat)

    def _show(self, beat: int) -> None:
        self._publish(MARKER, self._encode_sign(beat))

    def _encode_sign(self, beat: int) -> bytes:
        """As long for every beat, so that only digits change when it is renewed."""
        return f'{_to_json(self._describe_self())[:-1]}, "beat": {beat:>20}}}'.encode()

    def _hold_sign(self) -> None:
        """Keep the sign of life open: without locks it is renewed in place.

        If it were renewed by rename, a leader that is paused just before that and replaced would overwrite
        its successor's sign of life; in place it writes to a file that nobody sees any more.
        """
        with suppress(FileNotFoundError):
            self._sign = (self.root / MARKER).open("r+b", buffering=0)
        if self._sign is None or parse_object(self._sign.read()).get("token") != self.token:
            raise ReplacedError

    def _renew(self, beat: int) -> None:
        if self._sign is None:
            return
        data = self._encode_sign(beat)
        self._sign.seek(0)
        self._sign.write(data)
        # A file server's other hosts see it only then.
        os.fsync(self._sign.fileno())
        if self._mirror is not None:
            self._mirror.beat(data)

    def _describe_self(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "rank": self.launch.rank,
            "launch": self.launch.name,
            "host": identify_host(),
            "pid": os.getpid(),
            "fields": self.fields,
        }

    def _leave_failure(self, error: BaseException) -> None:
        kind = type(error).__name__
        cause = f"{kind}: {error}" if str(error) else kind
        code = getattr(error, "exit_code", EXIT_FAILED)
        with suppress(OSError):
            failure = {**self._describe_self(), "cause": cause, "exit_code": code, "at": read_host_clock()}
            self._publish(FAILURE, _to_json(failure).encode())

    def _publish(self, name: str, data: bytes) -> None:
        replace_file(self.root / name, data)
        if self._mirror is not None and name == MARKER:
            self._mirror.beat(data)
        elif self._mirror is not None:
            self._mirror.show(name, data)

    def release(self) -> None:
        """Remove the marker, if it is ours, and the lock, in this order."""
        if self._lock is None:
            return
        if self._sign is not None:
            self._sign.close()
            self._sign = None
        if (read_marker(self.root) or {}).get("token") == self.token:
            if self._mirror is not None:
                self._mirror.hide(MARKER, PROGRESS)
            with suppress(OSError):
                (self.root / MARKER).unlink(missing_ok=True)
        with suppress(OSError):
            (self.root / LOCK).unlink(missing_ok=True)
        self._lock.close()
        self._lock = None


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, default=str)


def read_marker(root: Path) -> dict[str, Any] | None:
    """The leader's last sign of life, or None."""
    return read_object(root / MARKER)


def read_failure(root: Path) -> dict[str, Any] | None:
    """The cause that the last leader left, or None."""
    return read_object(root / FAILURE)
