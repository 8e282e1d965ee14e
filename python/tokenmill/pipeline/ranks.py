"""Let rank 0 prepare a dataset while the other ranks wait for its manifest.

No collective is used, so a wait may last as long as the work. The leader renews a small status file next to
the dataset. The other ranks time it by their own clock, and raise if it failed, died or never started. Only
receipts and the manifest mark work as done, so the same command resumes after any failure.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tokenmill.base import machine
from tokenmill.base.durable import publish_bytes, read_version
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
from tokenmill.datasets.store import ObjectStore, read_file, replace_file
from tokenmill.errors import EXIT_FAILED, LeaderError, StoreError
from tokenmill.pipeline.output import lock_dataset
from tokenmill.settings.schema import ExecutionConfig
from tokenmill.sources.stores import is_remote

logger = logging.getLogger("tokenmill.ranks")
T = TypeVar("T", bound="Sized")
WORLD_SIZE = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
STATUS = ".leader.json"
BEAT_SECONDS, STORE_BEAT_SECONDS = 1.0, 5.0
# A leader whose status file is unchanged for this long is considered dead or stopped.
QUIET_SECONDS = 30.0
# Time to wait for a new leader before a status file of an earlier launch is reported.
GRACE_SECONDS = 60.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


def find_rank(environ: Mapping[str, str] = os.environ, *, shared_filesystem: bool = True) -> int | None:
    """Return the rank of this process, or on this host without a shared file system. None: no launcher."""
    names = machine.RANK + machine.LOCAL_RANK if shared_filesystem else machine.LOCAL_RANK
    return next((int(environ[name]) for name in names if environ.get(name, "").isdecimal()), None)


def has_other_ranks(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if a launcher started this process as one of several."""
    rank = find_rank(environ)
    return rank is not None and (rank > 0 or any(environ.get(name, "1") != "1" for name in WORLD_SIZE))


def lead_or_wait(
    root: Path,
    address: str,
    execution: ExecutionConfig,
    *,
    find: Callable[[], T | None],
    lead: Callable[[], T],
) -> T:
    """Prepare as rank 0 or without ranks, or wait as another rank. Return the dataset.

    `find` opens the dataset if it is complete, and writes nothing. `lead` does the work that is left.
    """
    rank = find_rank(shared_filesystem=execution.shared_filesystem)
    if rank is None:
        with lock_dataset(root):
            # Another process may have published the dataset in the meantime.
            dataset = find()
            return lead() if dataset is None else dataset
    # Ranks above 0 otherwise log only errors, but should log the wait.
    logger.setLevel(logging.INFO)
    if rank > 0:
        return _wait(root, _Watch(address, rank, execution.stall_timeout), find)
    with lock_dataset(root), _announce(root, address):
        started, dataset = time.monotonic(), _open_published(root, rank, find)
        if dataset is None:
            logger.info("[Rank 0] Saving final dataset to: %s", root)
            dataset = lead()
            logger.info("[Rank 0] Conversion completed: %s samples", f"{len(dataset):,}")
            logger.info("[Rank 0] Dataset saved in %.1fs", time.monotonic() - started)
        return dataset


@contextmanager
def _announce(root: Path, address: str) -> Iterator[None]:
    """Renew the status file during the block. If an error ends it, write the cause to the file."""
    stop, me = threading.Event(), {"pid": os.getpid(), "host": platform.node()}
    period = STORE_BEAT_SECONDS if is_remote(address) else BEAT_SECONDS

    def write(**value: Any) -> None:
        # A full disk or a store that fails must not end the job.
        with suppress(OSError, StoreError):
            replace_file(address, STATUS, json.dumps(me | value).encode())

    def renew() -> None:
        write(beat=time.time())
        while not stop.wait(period):
            write(beat=time.time())

    thread = threading.Thread(target=renew, name="tokenmill-leader", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        stop.set()
        thread.join()
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        write(failure=cause, exit_code=getattr(error, "exit_code", EXIT_FAILED), at=time.time())
        raise
    stop.set()
    thread.join()
    with suppress(OSError, StoreError):
        if is_remote(address):
            ObjectStore(address).delete([STATUS])
        else:
            (root / STATUS).unlink(missing_ok=True)


class _Watch:
    """The status of the leader as observed by a waiting rank, by its own clock."""

    def __init__(self, address: str, rank: int, stall_timeout: float) -> None:
        self.address = address
        self.rank = rank
        self._stall_timeout = stall_timeout
        self._first = self.last = self._read()
        self._beat_at = time.monotonic()
        self._alive = False

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, StoreError, ValueError):  # a file that is being written
            found: dict[str, Any] = json.loads(read_file(self.address, STATUS) or b"{}")
            return found
        return {}

    def check(self) -> None:
        """Raise `LeaderError` if the leader failed, died, stopped or never started."""
        now, value = time.monotonic(), self._read()
        if value != self.last:
            self.last, self._beat_at, self._alive = value or self.last, now, True
        last = self.last
        leader = f"rank 0 (pid {last['pid']} on {last['host']})" if last else "rank 0"
        limit = QUIET_SECONDS if self._alive else GRACE_SECONDS if self._first else self._stall_timeout
        limit = min(limit, self._stall_timeout)
        late = now - self._beat_at > limit
        if "failure" in last and (late or self._alive or _happened_now(last)):
            error = LeaderError(f"{leader} failed while preparing {self.address}: {last['failure']}")
            error.exit_code = last["exit_code"]
            raise error
        if late and last:
            raise LeaderError(
                f"{leader} stopped or died while preparing {self.address}, or has other settings: no sign of "
                f"life for {limit:.0f} s. Run the same command again to continue"
            )
        if late:
            raise LeaderError(
                f"rank 0 has not begun to prepare {self.address} within {limit:.0f} s. Every rank must call "
                "prepare; raise stall_timeout if rank 0 needs longer to start"
            )


def _happened_now(failure: dict[str, Any]) -> bool:
    """Return True if a failure is newer than this process, and so of the same launch."""
    import psutil  # here, since only ranks with a failure need it

    started = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux reports the boot time in whole seconds, which shifts the start by up to one.
        started += time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - psutil.boot_time()
    return bool(failure["at"] > started)


def _wait(root: Path, watch: _Watch, find: Callable[[], T | None]) -> T:
    """Poll the manifest until the dataset is complete."""
    pause, manifest = _SHORTEST_PAUSE, None
    while True:
        if is_remote(watch.address) and watch.last.get("host") != platform.node():
            _fetch_manifest(root, watch.address)
        # Comparing a manifest with the plan is slow, so compare only a new one.
        if (latest := read_version(root / MANIFEST)) != manifest:
            manifest = latest
            dataset = _open_published(root, watch.rank, find)
            if dataset is not None:
                return dataset
        watch.check()
        if pause == _SHORTEST_PAUSE:
            logger.info("[Rank %d] Waiting for rank 0 to complete all processing...", watch.rank)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _fetch_manifest(root: Path, address: str) -> None:
    """Fetch a new manifest from the store, after its plan, which is needed to extend the dataset."""
    with suppress(StoreError):
        manifest, plan = read_file(address, MANIFEST), read_file(address, PLAN)
        if manifest is not None and plan is not None and manifest != read_file(str(root), MANIFEST):
            publish_bytes(root / PLAN, plan)
            publish_bytes(root / MANIFEST, manifest)


def _open_published(root: Path, rank: int, find: Callable[[], T | None]) -> T | None:
    started, dataset = time.monotonic(), find()
    if dataset is not None:
        seconds = time.monotonic() - started
        logger.info("[Rank %d] Loading final dataset from: %s", rank, root)
        logger.info("[Rank %d] Loaded from disk in %.1fs: %s samples", rank, seconds, f"{len(dataset):,}")
    return dataset
