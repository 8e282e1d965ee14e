"""Every rank calls `prepare`; one does it, the others wait for the manifest, and all open the same dataset.

No collective is used and torch is not needed: a wait is as long as the work. The leader is rank 0 as the
launcher's variables say, or whoever takes the lock where there are none. If it is killed, another takes over
and resumes, since nothing but receipts and the manifest counts as done.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tokenmill.base.durable import ReplacedError, read_version
from tokenmill.datasets.ledger.manifest import MANIFEST
from tokenmill.pipeline.launch import find_launch
from tokenmill.pipeline.lease import Lease
from tokenmill.pipeline.waiting import LeaderView

if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from pathlib import Path

    from tokenmill.pipeline.launch import Launch
    from tokenmill.pipeline.mirror import Mirror
    from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.ranks")
T = TypeVar("T", bound="Sized")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
# Others may try the lock for an instant; the leader must not give way to that.
_PATIENCE = 1.0


def lead_or_wait(
    root: Path,
    fields: dict[str, Any],
    execution: ExecutionConfig,
    *,
    find: Callable[[], T | None],
    lead: Callable[[], T],
    mirror: Mirror | None = None,
) -> T:
    """Prepare as the leader or wait as another rank; both return the same dataset.

    `fields` must be equal on every rank. `find` opens the dataset if it is complete for these settings, and
    writes nothing. `lead` does the work, and may be called where a dead leader stopped. `mirror` is for an
    output that lies elsewhere than `root`, so that other hosts see who leads.
    """
    launch = find_launch(shared_filesystem=execution.shared_filesystem)
    if launch.rank is not None:
        # Ranks above 0 are silent otherwise, but those who wait should say for what.
        logger.setLevel(logging.INFO)
    lease = Lease(root, launch, fields, mirror)
    if launch.leads and lease.take(patience=_PATIENCE):
        with suppress(ReplacedError):
            return _lead(lease, find, lead)
    view = LeaderView(root, launch, fields, execution, mirror)
    while True:
        with suppress(ReplacedError):
            return _wait(view, lease, find, lead)


def _wait(view: LeaderView, lease: Lease, find: Callable[[], T | None], lead: Callable[[], T]) -> T:
    """Look for the manifest until it is there; a process alone takes the lock at once, and leads."""
    pause, manifest = _SHORTEST_PAUSE, cast("tuple[int, ...] | None", ())
    while True:
        # Only when another manifest was published: to compare it with the plan takes a while.
        if (latest := read_version(view.root / MANIFEST)) != manifest:
            manifest = latest
            dataset = _open_published(view.launch, view.root, find)
            if dataset is not None:
                return dataset
        if view.leader_is_gone() and lease.take():
            if lease.exclusive or not view.shows_life:
                return _lead(lease, find, lead, view)
            lease.release()
        view.check_stalled()
        if pause == _SHORTEST_PAUSE:
            _announce_wait(view.launch)
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _lead(
    lease: Lease, find: Callable[[], T | None], lead: Callable[[], T], view: LeaderView | None = None
) -> T:
    """Lead with the lock in hand; `view` is of the leader whose place is taken, if there was one."""
    try:
        # The one before may have published the dataset between our last look and its end.
        dataset = _open_published(lease.launch, lease.root, find)
        if dataset is not None:
            return dataset
        if view is not None:
            _check_takeover(view)
        with lease.lead():
            # Without locks we may have been stopped before our sign of life was there, and replaced.
            dataset = None if lease.exclusive else _open_published(lease.launch, lease.root, find)
            return _lead_and_log(lease, lead) if dataset is None else dataset
    except ReplacedError:
        logger.warning("%sAnother process took over while this one was stopped", lease.launch.label)
        raise
    finally:
        lease.release()


def _check_takeover(view: LeaderView) -> None:
    numbered = view.launch.rank is not None
    if view.execution.leader_death == "fail" and (numbered or view.saw_leader):
        raise view.make_death_error()
    if view.saw_leader:
        logger.warning("%sThe leader died; taking over where it stopped", view.launch.label)


def _lead_and_log(lease: Lease, lead: Callable[[], T]) -> T:
    label, started = lease.launch.label, time.monotonic()
    if label:
        logger.info("%sPreparing the dataset in: %s", label, lease.root)
    dataset = lead()
    if label:
        logger.info("%sPreparation completed: %s samples", label, f"{len(dataset):,}")
        logger.info("%sDataset saved in %.1fs", label, time.monotonic() - started)
    return dataset


def _open_published(launch: Launch, root: Path, find: Callable[[], T | None]) -> T | None:
    started = time.monotonic()
    dataset = find()
    if dataset is not None and launch.label:
        logger.info("%sLoading final dataset from: %s", launch.label, root)
        seconds = time.monotonic() - started
        logger.info("%sLoaded from disk in %.1fs: %s samples", launch.label, seconds, f"{len(dataset):,}")
    return dataset


def _announce_wait(launch: Launch) -> None:
    if launch.rank is None or launch.leads:
        logger.info("Waiting for another process that is preparing the same dataset...")
    else:
        logger.info("%sWaiting for rank 0 to complete all processing...", launch.label)
