"""Waiting for the leader without a collective: read its files, judge by our own clock, never write.

A wait lasts as long as the leader shows signs of life, be it for hours. It ends when the dataset is
there, when the leader has left a failure, when it has died, or when nobody ever came to lead.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.run_files import read_progress
from tokenmill.errors import ConfigError, LeaderError
from tokenmill.pipeline.launch import Launch, find_start_time, identify_host
from tokenmill.pipeline.lease import BEAT_SECONDS, read_failure, read_marker

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.pipeline.mirror import Mirror
    from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.ranks")
CALM_SECONDS = 30.0
# The lock of a dead process on this host is free at once, so a few missed beats are enough to try it.
QUIET_HERE = 3 * BEAT_SECONDS
# On another host the lock may not be visible; a file server may also show files some seconds late.
QUIET_ELSEWHERE = 20 * BEAT_SECONDS
# A leader may be slow to start; one that failed before us will not come again.
GRACE, GRACE_AFTER_FAILURE = 60.0, 15.0
# A leader that lives but has nothing to show for this many stall timeouts is stuck.
STUCK = 6


@dataclass
class _Change:
    """The last change of a value, on our clock."""

    value: Any = None
    at: float = 0.0
    count: int = 0

    def note(self, value: Any, now: float) -> None:
        if value != self.value:
            self.count += self.at != 0.0
            self.value, self.at = value, now
        elif self.at == 0.0:
            self.at = now


class LeaderView:
    """What one waiter knows of the leader: its sign of life, its progress, its failure."""

    def __init__(
        self,
        root: Path,
        launch: Launch,
        fields: dict[str, Any],
        execution: ExecutionConfig,
        mirror: Mirror | None = None,
    ) -> None:
        self.root = root
        self.launch = launch
        self.fields = json.loads(json.dumps(fields, default=str))
        self.execution = execution
        self.began = time.monotonic()
        self._mirror = mirror
        self._logged = self.began
        self._beat = _Change()
        self._progress = _Change()
        self._marker: dict[str, Any] | None = None
        self.shows_life = False
        """Whether another process leads, as far as its marker tells: what counts where there are no locks."""
        self._fetch()
        self._old_failure = read_failure(root)
        self._seen: set[str] = set()

    def leader_is_gone(self) -> bool:
        """Whether it is time to try the lock; raises where waiting makes no sense any more."""
        self._fetch()
        now = time.monotonic()
        self._raise_failure()
        marker = read_marker(self.root)
        self._beat.note((marker or {}).get("token", "") + str((marker or {}).get("beat")), now)
        if marker is not None:
            self._marker = marker
            if self._beat.count:
                self._seen.add(marker["token"])
                self._compare_fields(marker)
        self._progress.note(self._read_progress(), now)
        self._log_wait(now)
        self.shows_life = marker is not None and now - self._beat.at < QUIET_HERE
        return now - self._beat.at >= min(self._choose_patience(), self.execution.stall_timeout)

    def _fetch(self) -> None:
        if self._mirror is not None:
            self._mirror.fetch()

    def _choose_patience(self) -> float:
        """Seconds without a sign of life after which the lock is tried; none for a process alone."""
        if self._marker is not None and self._marker["host"] != identify_host():
            return QUIET_ELSEWHERE
        if self.launch.rank is None:
            return 0.0
        if self._beat.count:
            return QUIET_HERE
        return GRACE_AFTER_FAILURE if self._old_failure or self._marker else GRACE

    @property
    def saw_leader(self) -> bool:
        """True once another process has shown a sign of life while we watched."""
        return bool(self._seen)

    def make_death_error(self) -> LeaderError:
        """The error of a waiter that must not take over."""
        return LeaderError(
            f"{_name_leader(self._marker)} died while preparing {self.root} ({self._describe_progress()}). "
            "Run the same command again to continue where it stopped, or set leader_death: takeover"
        )

    def _raise_failure(self) -> None:
        failure = read_failure(self.root)
        if failure is None or not self._concerns_us(failure):
            return
        self._compare_fields(failure)
        error = LeaderError(f"{_name_leader(failure)} failed while preparing {self.root}: {failure['cause']}")
        error.exit_code = failure.get("exit_code", error.exit_code)
        raise error

    def _concerns_us(self, failure: dict[str, Any]) -> bool:
        """Whether a failure belongs to this launch, and not to an earlier one."""
        if failure["host"] == identify_host() and failure["pid"] == os.getpid():
            # Our own earlier try: whoever calls again wants to try again.
            return False
        if failure != self._old_failure or failure["token"] in self._seen:
            return True
        if self.launch.name and failure["launch"] == self.launch.name:
            return True
        return bool(failure["host"] == identify_host() and failure["at"] > find_start_time())

    def _compare_fields(self, marker: dict[str, Any]) -> None:
        theirs = marker["fields"]
        keys = sorted(key for key in {*theirs, *self.fields} if theirs.get(key) != self.fields.get(key))
        if keys:
            each = [
                f"{key} is {self.fields.get(key)!r} here and {theirs.get(key)!r} on {_name_leader(marker)}"
                for key in keys
            ]
            raise ConfigError(
                f"the ranks disagree about what to prepare in {self.root}: {'; '.join(each)}. "
                "Every rank must call prepare with the same settings"
            )

    def check_stalled(self) -> None:
        """Raise `LeaderError` if the leader has had nothing to show for longer than anyone should wait."""
        limit, now = self.execution.stall_timeout, time.monotonic()
        if now - self._beat.at > limit:
            raise LeaderError(
                f"{_name_leader(self._marker)} has shown no sign of life for {limit:.0f} s in {self.root} "
                f"({self._describe_progress()}): it is stopped, or its host or file system is gone. "
                "Raise stall_timeout if that is normal here"
            )
        if now - self._progress.at > STUCK * limit:
            raise LeaderError(
                f"{_name_leader(self._marker)} is alive but has made no progress for {STUCK * limit:.0f} s "
                f"in {self.root} ({self._describe_progress()}). Look at its log; raise stall_timeout to wait "
                "longer"
            )

    def _read_progress(self) -> tuple[Any, ...]:
        value = read_progress(self.root)
        if value is None:
            return ()
        return tuple(value.get(key) for key in ("phase", "documents", "bytes", "bytes_total", "units_done"))

    def _describe_progress(self) -> str:
        if not self._progress.value:
            return "nothing done yet"
        phase, documents, done, total, _ = self._progress.value
        part = f", {100 * done / total:.0f} %" if done and total else ""
        return f"{phase}: {documents or 0:,} documents{part}"

    def _log_wait(self, now: float) -> None:
        if now - self._logged >= CALM_SECONDS:
            self._logged = now
            text = "%sStill waiting for %s after %.0fs (%s)"
            waited = now - self.began
            logger.info(
                text, self.launch.label, _name_leader(self._marker), waited, self._describe_progress()
            )


def _name_leader(marker: dict[str, Any] | None) -> str:
    if marker is None:
        return "the leader"
    rank = marker.get("rank")
    host = str(marker.get("host", "")).split("/")[0]
    who = "the leading process" if rank is None else f"rank {rank}"
    return f"{who} (pid {marker['pid']} on {host})" if "pid" in marker else who
