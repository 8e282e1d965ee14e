"""Let rank 0 prepare a dataset while the other ranks wait for its manifest.

No collective is used, so a wait may last as long as the work. The leader renews a small status file beside
the dataset. The others judge it by their own clock and raise when it failed, died or never came. Only
receipts and the manifest count as done, so the same command resumes after any failure.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tokenmill.base.durable import publish_bytes, read_version
from tokenmill.base.hardware import world
from tokenmill.base.run_files import parse_object, read_object, read_progress, replace_file
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
from tokenmill.errors import EXIT_FAILED, ConfigError, LeaderError, StoreError
from tokenmill.pipeline.output import lock_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sized
    from pathlib import Path

    from tokenmill.datasets.store.remote import Remote
    from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.ranks")
T = TypeVar("T", bound="Sized")
STATUS = ".leader.json"
BEAT_SECONDS, STORE_BEAT_SECONDS = 1.0, 5.0
# Without a beat for this long, a leader that was alive is dead or stopped.
QUIET_SECONDS = 30.0
# A failure of an earlier launch is not ours, unless no leader comes for this long.
GRACE_SECONDS = 60.0
LOG_SECONDS = 30.0
# A leader that beats but makes no progress for this many stall timeouts is stuck.
STUCK = 6
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


def find_rank(environ: Mapping[str, str] = os.environ, *, shared_filesystem: bool = True) -> int | None:
    """Return the rank of this process, or None outside a launcher.

    Without a shared file system the ranks of each host are counted on their own.
    """
    names = world.RANK + world.LOCAL_RANK if shared_filesystem else world.LOCAL_RANK
    return next((int(environ[name]) for name in names if environ.get(name, "").isdecimal()), None)


def is_alone(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True unless the launcher reports other ranks."""
    sizes = [int(environ[name]) for name in _WORLD_SIZE if environ.get(name, "").isdecimal()]
    rank = world.find_rank(environ)
    return rank is None or (rank == 0 and (not sizes or sizes[0] == 1))


def lead_or_wait(
    root: Path,
    fields: dict[str, Any],
    execution: ExecutionConfig,
    *,
    find: Callable[[], T | None],
    lead: Callable[[], T],
    remote: Remote | None = None,
) -> T:
    """Prepare as rank 0 or without ranks, or wait as another rank; return the dataset.

    `fields` must be equal on every rank. `find` opens the dataset if it is complete, and writes nothing.
    `lead` does the work that is left.
    """
    rank = find_rank(shared_filesystem=execution.shared_filesystem)
    if rank is None:
        with lock_dataset(root):
            # Another process may have published the dataset since this one looked.
            dataset = find()
            return lead() if dataset is None else dataset
    # Ranks above 0 log only errors otherwise, but should tell what they wait for.
    logger.setLevel(logging.INFO)
    status = _Status(root, remote)
    if rank > 0:
        return _wait(root, _Watch(status, rank, fields, execution.stall_timeout), find)
    with lock_dataset(root), _announce(status, fields):
        started, dataset = time.monotonic(), _open_published(root, rank, find)
        if dataset is None:
            logger.info("[Rank 0] Preparing the dataset in: %s", root)
            dataset = lead()
            logger.info("[Rank 0] Preparation completed: %s samples", f"{len(dataset):,}")
            logger.info("[Rank 0] Dataset saved in %.1fs", time.monotonic() - started)
        return dataset


class _Status:
    """The leader's status file, in the output directory or in the object store of the dataset."""

    def __init__(self, root: Path, remote: Remote | None) -> None:
        self.root = root
        self._store = remote.store if remote is not None else None
        self.period = BEAT_SECONDS if remote is None else STORE_BEAT_SECONDS

    def read(self) -> dict[str, Any] | None:
        if self._store is None:
            return read_object(self.root / STATUS)
        with suppress(StoreError):
            return parse_object(self._store.read(STATUS) or b"") or None
        return None

    def write(self, value: dict[str, Any]) -> None:
        """Replace the file; a full disk or a store that fails must not end the job."""
        data = json.dumps(value, default=str).encode()
        with suppress(OSError, StoreError):
            if self._store is None:
                replace_file(self.root / STATUS, data)
            else:
                self._store.replace(STATUS, data)

    def remove(self) -> None:
        with suppress(OSError, StoreError):
            if self._store is None:
                (self.root / STATUS).unlink(missing_ok=True)
            else:
                self._store.delete([STATUS])

    def find_manifest(self, host: str | None) -> tuple[int, ...] | None:
        """Return a value that changes with the manifest, which is fetched from the store if need be."""
        if self._store is not None and host != platform.node():
            with suppress(StoreError):
                data, path = self._store.read(MANIFEST), self.root / MANIFEST
                plan = self._store.read(PLAN) if data is not None else None
                if (
                    data is not None
                    and plan is not None
                    and not (path.exists() and path.read_bytes() == data)
                ):
                    # The plan first: a manifest without one is a dataset that cannot be added to.
                    publish_bytes(self.root / PLAN, plan)
                    publish_bytes(path, data)
        return read_version(self.root / MANIFEST)


@contextmanager
def _announce(status: _Status, fields: dict[str, Any]) -> Iterator[None]:
    """Renew the status file during the block; leave the cause there if an error ends it."""
    stop, me = threading.Event(), {"token": uuid.uuid4().hex, "fields": fields, "pid": os.getpid()}
    me["host"] = platform.node()

    def renew() -> None:
        beat = 0
        while not stop.wait(status.period if beat else 0):
            beat += 1
            status.write(me | {"beat": beat, "progress": read_progress(status.root)})

    thread = threading.Thread(target=renew, name="tokenmill-leader", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        stop.set()
        thread.join()
        kind = type(error).__name__
        code = getattr(error, "exit_code", EXIT_FAILED)
        cause = f"{kind}: {error}" if str(error) else kind
        status.write(me | {"failure": cause, "exit_code": code, "at": time.time()})
        raise
    stop.set()
    thread.join()
    status.remove()


class _Watch:
    """What a waiting rank has seen of the leader, by its own clock."""

    def __init__(self, status: _Status, rank: int, fields: dict[str, Any], stall_timeout: float) -> None:
        self.status = status
        self.rank = rank
        self._fields = json.loads(json.dumps(fields, default=str))
        self._stall_timeout = stall_timeout
        self._first = self.last = status.read()
        self._began = self._beat_at = self._progress_at = self._logged = time.monotonic()
        self._progress: dict[str, Any] = {}
        self._alive = False

    def check(self) -> None:
        """Raise if the leader failed, died, stopped, never came, or prepares something else."""
        now, value = time.monotonic(), self.status.read()
        if value != self.last:
            self.last, self._beat_at, self._alive = value or self.last, now, True
        if value is not None and (self._alive or "failure" in value):
            self._check_value(value)
        progress = {
            key: item
            for key, item in ((self.last or {}).get("progress") or {}).items()
            if key in ("phase", "documents", "bytes", "bytes_total", "units_done")
        }
        if progress != self._progress:
            self._progress, self._progress_at = progress, now
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            text = "[Rank %d] Still waiting for %s after %.0fs (%s)"
            logger.info(text, self.rank, self._name(), now - self._began, self._describe_progress())
        self._check_quiet(now)

    def _check_value(self, value: dict[str, Any]) -> None:
        if "failure" in value and value == self._first and not _happened_now(value):
            return  # of an earlier launch
        theirs = value.get("fields", {})
        keys = sorted(key for key in {*theirs, *self._fields} if theirs.get(key) != self._fields.get(key))
        if keys:
            each = [
                f"{key} is {self._fields.get(key)!r} here and {theirs.get(key)!r} on {self._name()}"
                for key in keys
            ]
            raise ConfigError(
                f"the ranks disagree about what to prepare in {self.status.root}: {'; '.join(each)}. "
                "Every rank must call prepare with the same settings"
            )
        if "failure" in value:
            raise self._make_failure(value)

    def _check_quiet(self, now: float) -> None:
        root = self.status.root
        limit = QUIET_SECONDS if self._alive else GRACE_SECONDS if self._first else self._stall_timeout
        limit = min(limit, self._stall_timeout)
        if now - self._beat_at > limit:
            if self.last is not None and "failure" in self.last:
                raise self._make_failure(self.last)
            if self.last is not None:
                raise LeaderError(
                    f"{self._name()} stopped or died while preparing {root}: no sign of life for {limit:.0f} "
                    f"s ({self._describe_progress()}). Run the same command again to continue"
                )
            raise LeaderError(
                f"rank 0 has not begun to prepare {root} within {limit:.0f} s. Every rank must call prepare; "
                "raise stall_timeout if rank 0 needs longer to start"
            )
        if self._alive and now - self._progress_at > STUCK * self._stall_timeout:
            raise LeaderError(
                f"{self._name()} is alive but has made no progress for {STUCK * self._stall_timeout:.0f} s "
                f"in {root} ({self._describe_progress()}). See its log; raise stall_timeout to wait longer"
            )

    def _make_failure(self, value: dict[str, Any]) -> LeaderError:
        error = LeaderError(f"{self._name()} failed while preparing {self.status.root}: {value['failure']}")
        error.exit_code = value.get("exit_code", error.exit_code)
        return error

    def _name(self) -> str:
        return f"rank 0 (pid {self.last.get('pid')} on {self.last.get('host')})" if self.last else "rank 0"

    def _describe_progress(self) -> str:
        if not self._progress:
            return "nothing done yet"
        done, total = self._progress.get("bytes"), self._progress.get("bytes_total")
        part = f", {100 * done / total:.0f} %" if done and total else ""
        return f"{self._progress.get('phase')}: {self._progress.get('documents') or 0:,} documents{part}"


def _happened_now(failure: dict[str, Any]) -> bool:
    """Return True if a failure is younger than this process, and so of the same launch."""
    import psutil  # here, since only ranks that meet a failure need it

    return bool(failure.get("at", 0.0) > psutil.Process().create_time())


def _wait(root: Path, watch: _Watch, find: Callable[[], T | None]) -> T:
    """Poll the manifest until the dataset is complete."""
    pause, manifest = _SHORTEST_PAUSE, None
    while True:
        # Comparing a manifest with the plan takes a while, so only a new one is compared.
        latest = watch.status.find_manifest((watch.last or {}).get("host"))
        if latest != manifest:
            manifest = latest
            dataset = _open_published(root, watch.rank, find)
            if dataset is not None:
                return dataset
        watch.check()
        if pause == _SHORTEST_PAUSE:
            logger.info("[Rank %d] Waiting for rank 0 to complete all processing...", watch.rank)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _open_published(root: Path, rank: int, find: Callable[[], T | None]) -> T | None:
    started, dataset = time.monotonic(), find()
    if dataset is not None:
        seconds = time.monotonic() - started
        logger.info("[Rank %d] Loading final dataset from: %s", rank, root)
        logger.info("[Rank %d] Loaded from disk in %.1fs: %s samples", rank, seconds, f"{len(dataset):,}")
    return dataset
