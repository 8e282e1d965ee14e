"""Every rank calls `prepare`; one does it, the others wait for the manifest, and all open the same dataset.

No collective is used and torch is not needed: a wait is as long as the work. The leader is rank 0 as the
launcher's variables say, or whoever takes the lock where there are none. If it is killed, another takes over
and resumes, since nothing but receipts and the manifest counts as done.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from tokenmill.jobs.prepare.launch import Launch, this_launch
from tokenmill.jobs.prepare.lease import Lease
from tokenmill.jobs.prepare.waiting import Verdict, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from pathlib import Path

    from tokenmill.jobs.prepare.mirror import Mirror
    from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.ranks")
T = TypeVar("T", bound="Sized")
_SHORTEST_LOOK, _LONGEST_LOOK = 0.05, 1.0
# Others may try the lock for an instant; the leader must not give way to that.
_PATIENCE = 1.0


def lead_or_wait(
    root: Path,
    fields: dict[str, Any],
    execution: ExecutionConfig,
    *,
    finished: Callable[[], T | None],
    lead: Callable[[], T],
    mirror: Mirror | None = None,
) -> T:
    """Prepare as the leader or wait as another rank; both return the same dataset.

    `fields` must be equal on every rank. `finished` opens the dataset if it is complete for these
    settings, and writes nothing. `lead` does the work, and may be called where a dead leader stopped.
    `mirror` is for an output that lies elsewhere than `root`, so that other hosts see who leads.
    """
    launch = this_launch(shared_filesystem=execution.shared_filesystem)
    if launch.rank is not None:
        # Ranks above 0 are silent otherwise, but those who wait should say for what.
        logger.setLevel(logging.INFO)
    lease = Lease(root, launch, fields, mirror)
    if launch.leads and lease.take(patience=_PATIENCE):
        return _lead(lease, lead)
    look = mirror.look if mirror is not None else _nothing
    look()
    return _wait(Watch(root, launch, fields, execution), lease, finished, lead, look)


def _lead(lease: Lease, lead: Callable[[], T]) -> T:
    label = lease.launch.label
    try:
        lease.begin()
        started = time.monotonic()
        if label:
            logger.info("%sPreparing the dataset in: %s", label, lease.root)
        dataset = lead()
        if label:
            logger.info("%sPreparation completed: %s samples", label, f"{len(dataset):,}")
            logger.info("%sDataset saved in %.1fs", label, time.monotonic() - started)
    except BaseException as error:
        lease.fail(error)
        raise
    else:
        return dataset
    finally:
        lease.release()


def _nothing() -> None:
    """All files that a waiter looks for are in its own directory."""


def _wait(
    watch: Watch,
    lease: Lease,
    finished: Callable[[], T | None],
    lead: Callable[[], T],
    look: Callable[[], None],
) -> T:
    published = _Published(watch.launch, watch.root)
    pause = _SHORTEST_LOOK
    while True:
        look()
        dataset = published.look(finished)
        if dataset is not None:
            return dataset
        if watch.look() is Verdict.LOOK and lease.take():
            return _take_over(watch, lease, published, finished, lead)
        if pause == _SHORTEST_LOOK:
            _say_waiting(watch.launch)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_LOOK)


def _take_over(
    watch: Watch,
    lease: Lease,
    published: _Published,
    finished: Callable[[], T | None],
    lead: Callable[[], T],
) -> T:
    """Lead in place of the one before, or be the first to lead where ranks have no numbers."""
    with ExitStack() as given_up:
        given_up.callback(lease.release)
        # It may have published the dataset between our last look and its end.
        dataset = published.look(finished)
        if dataset is not None:
            return dataset
        numbered = watch.launch.rank is not None
        if watch.execution.leader_death == "fail" and (numbered or watch.saw_leader):
            raise watch.death()
        given_up.pop_all()
    if watch.saw_leader:
        logger.warning("%sThe leader died; taking over where it stopped", watch.launch.label)
    return _lead(lease, lead)


class _Published:
    """Looks for the dataset when another manifest has been published, and no more often: planning costs."""

    def __init__(self, launch: Launch, root: Path) -> None:
        self._launch = launch
        self._root = root
        self._seen: tuple[int, ...] | None = ()

    def look(self, finished: Callable[[], T | None]) -> T | None:
        latest = _signature(self._root)
        if latest == self._seen:
            return None
        self._seen = latest
        started = time.monotonic()
        dataset = finished()
        label = self._launch.label
        if dataset is not None and label:
            logger.info("%sLoading final dataset from: %s", label, self._root)
            seconds = time.monotonic() - started
            logger.info("%sLoaded from disk in %.1fs: %s samples", label, seconds, f"{len(dataset):,}")
        return dataset


def _say_waiting(launch: Launch) -> None:
    if launch.rank is None or launch.leads:
        logger.info("Waiting for another process that prepares the same dataset...")
    else:
        logger.info("%sWaiting for rank 0 to complete all processing...", launch.label)


def _signature(root: Path) -> tuple[int, ...] | None:
    """Changes whenever a manifest is published."""
    try:
        status = (root / "manifest.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
