"""Waiting for the leader without a collective: watch its files, judge by our own clock, never write.

A wait lasts as long as the leader shows signs of life, be it for hours. It ends when the dataset is
there, when the leader has left a failure, when it has died, or when nobody ever came to lead.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import ConfigError, LeaderError
from tokenmill.jobs.prepare.launch import Launch, started_at, this_host
from tokenmill.jobs.prepare.lease import BEAT_SECONDS, read_failure, read_marker

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.ranks")
CALM_SECONDS = 30.0
# The lock of a dead process on this host is free at once, so a few missed beats are enough to look.
QUIET_HERE = 3 * BEAT_SECONDS
# On another host the lock may not be visible; a file server may also show files some seconds late.
QUIET_ELSEWHERE = 20 * BEAT_SECONDS
# A leader may be slow to start; one that failed before us will not come again.
GRACE, GRACE_AFTER_FAILURE = 60.0, 15.0
# A leader that lives but has nothing to show for this many stall timeouts is stuck.
STUCK = 6


class Verdict(Enum):
    """What a waiter should do next."""

    WAIT = auto()
    LOOK = auto()
    """The leader may be gone: try to take its lock."""


@dataclass
class _Sight:
    """The last change of something watched, on our clock."""

    value: Any = None
    at: float = 0.0
    changes: int = 0

    def look(self, value: Any, now: float) -> None:
        if value != self.value:
            self.changes += self.at != 0.0
            self.value, self.at = value, now
        elif self.at == 0.0:
            self.at = now


class Watch:
    """One waiter's view of the leader."""

    def __init__(
        self, root: Path, launch: Launch, fields: dict[str, Any], execution: ExecutionConfig
    ) -> None:
        self.root = root
        self.launch = launch
        self.fields = json.loads(json.dumps(fields, default=str))
        self.execution = execution
        self.began = time.monotonic()
        self._said = self.began
        self._beat = _Sight()
        self._figures = _Sight()
        self._marker: dict[str, Any] | None = None
        self._old_failure = read_failure(root)
        self._seen: set[str] = set()

    def look(self) -> Verdict:
        """Look once; raises `LeaderError` or `ConfigError` when waiting has no sense any more."""
        now = time.monotonic()
        self._raise_failure()
        marker = read_marker(self.root)
        self._beat.look((marker or {}).get("token", "") + str((marker or {}).get("beat")), now)
        if marker is not None:
            self._marker = marker
            if self._beat.changes:
                self._seen.add(marker["token"])
                self._compare(marker)
        self._figures.look(self._progress(), now)
        self._raise_stalled(now)
        self._say(now)
        return self._verdict(now)

    def _verdict(self, now: float) -> Verdict:
        here = self._marker is None or self._marker["host"] == this_host()
        if not here:
            enough = QUIET_ELSEWHERE
        elif self.launch.rank is None:
            enough = 0.0
        elif self._beat.changes:
            enough = QUIET_HERE
        else:
            enough = GRACE_AFTER_FAILURE if self._old_failure or self._marker else GRACE
        return Verdict.LOOK if now - self._beat.at >= enough else Verdict.WAIT

    @property
    def saw_leader(self) -> bool:
        """True once another process has shown a sign of life while we watched."""
        return bool(self._seen)

    def death(self) -> LeaderError:
        """The error of a waiter that must not take over."""
        marker = self._marker or {}
        return LeaderError(
            f"{_name(marker)} died while preparing {self.root} ({self._progress_words()}). "
            "Run the same command again to go on where it stopped, or set leader_death: takeover"
        )

    def _raise_failure(self) -> None:
        failure = read_failure(self.root)
        if failure is None or not self._is_news(failure):
            return
        self._compare(failure)
        error = LeaderError(f"{_name(failure)} failed while preparing {self.root}: {failure['cause']}")
        error.exit_code = failure.get("exit_code", error.exit_code)
        raise error

    def _is_news(self, failure: dict[str, Any]) -> bool:
        """Whether a failure belongs to this launch, and not to one of yesterday."""
        if failure["host"] == this_host() and failure["pid"] == os.getpid():
            # Our own earlier try: whoever calls again wants it tried again.
            return False
        if failure != self._old_failure or failure["token"] in self._seen:
            return True
        if self.launch.name and failure["launch"] == self.launch.name:
            return True
        return bool(failure["host"] == this_host() and failure["at"] > started_at())

    def _compare(self, marker: dict[str, Any]) -> None:
        theirs = marker["fields"]
        keys = sorted(key for key in {*theirs, *self.fields} if theirs.get(key) != self.fields.get(key))
        if keys:
            each = [
                f"{key} is {self.fields.get(key)!r} here and {theirs.get(key)!r} on {_name(marker)}"
                for key in keys
            ]
            raise ConfigError(
                f"the ranks disagree about what to prepare in {self.root}: {'; '.join(each)}. "
                "Every rank must call prepare with the same settings"
            )

    def _raise_stalled(self, now: float) -> None:
        limit = self.execution.stall_timeout
        if now - self._beat.at > limit:
            who = _name(self._marker) if self._marker else "the leader"
            raise LeaderError(
                f"{who} has shown no sign of life for {limit:.0f} s in {self.root} "
                f"({self._progress_words()}): it is stopped, or its host or file system is gone. "
                "Raise stall_timeout if that is normal here"
            )
        if now - self._figures.at > STUCK * limit:
            raise LeaderError(
                f"{_name(self._marker or {})} lives but has made no progress for {STUCK * limit:.0f} s in "
                f"{self.root} ({self._progress_words()}). Look at its log; raise stall_timeout to wait longer"
            )

    def _progress(self) -> tuple[Any, ...]:
        try:
            value = json.loads((self.root / "progress.json").read_bytes())
        except (OSError, ValueError):
            return ()
        return tuple(value.get(key) for key in ("phase", "documents", "bytes", "bytes_total", "units_done"))

    def _progress_words(self) -> str:
        if not self._figures.value:
            return "nothing done yet"
        phase, documents, done, total, _ = self._figures.value
        part = f", {100 * done / total:.0f} %" if done and total else ""
        return f"{phase}: {documents or 0:,} documents{part}"

    def _say(self, now: float) -> None:
        if now - self._said >= CALM_SECONDS:
            self._said = now
            who = _name(self._marker) if self._marker else "the leader"
            waited = now - self.began
            text = "%sStill waiting for %s after %.0fs (%s)"
            logger.info(text, self.launch.label, who, waited, self._progress_words())


def _name(marker: dict[str, Any]) -> str:
    rank = marker.get("rank")
    host = str(marker.get("host", "")).split("/")[0]
    who = "the process that leads" if rank is None else f"rank {rank}"
    return f"{who} (pid {marker['pid']} on {host})" if "pid" in marker else who
