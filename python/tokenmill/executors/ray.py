"""Units as plain tasks of a Ray cluster: settings, unit ids and receipts travel, text and tokens never.

Two budgets of failure. A fault of the cluster (a node lost, a worker killed from outside) is nobody's fault
and is retried with a pause that grows. A fault of the unit (an error, or a worker that dies whenever it has
this unit) is tried three times; then the unit is set aside, everything else is done, and the job ends by
naming it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tokenmill.errors import (
    ConfigError,
    InterruptedJobError,
    MissingExtraError,
    RejectLimitError,
    TokenmillError,
)
from tokenmill.executors.base import timed
from tokenmill.pipeline.control import Control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.executors.base import Done, Task, Watch, Work

logger = logging.getLogger("tokenmill.ray")

UNIT_ATTEMPTS = 3
CLUSTER_ATTEMPTS = 20
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
TASK_MEMORY = 512 << 20  # blocks in flight, the encoder's tables and its cache, with room
SPEAK_SECONDS = 30.0
_POLL_SECONDS = 0.2


@dataclass
class _Attempt:
    """One task on its way: how often its unit failed, and when it may start again."""

    task: Task
    failures: int = 0
    faults: int = 0
    not_before: float = 0.0


@dataclass(frozen=True)
class RayExecutor:
    """Runs units on a cluster that exists; `address` is Ray's, `auto` the one this machine is part of."""

    address: str = "auto"
    batch_size: int | None = None
    writer_batch_size: int | None = None

    def run(self, work: Work, job: Any, tasks: Iterable[Task], count: int, watch: Watch) -> Iterator[Done]:
        """Each task as it ends; units set aside are named by an error at the end."""
        ray = connect(self.address)
        return _Run(ray, self, work, job, watch).all(tasks, count)


def connect(address: str) -> Any:
    """The `ray` module, connected; every way in which that fails has its own sentence."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError.of("ray", "ray", "the ray executor") from error
    if ray.is_initialized():
        return ray
    try:
        _knock(address)
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"no Ray cluster at {address!r} ({first}); "
            "start one with `ray start --head`, or give --ray-address"
        ) from error
    return ray


def _knock(address: str) -> None:
    """Raise at once where nobody listens; Ray itself would go on trying for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "://" not in address:
        socket.create_connection((host, int(port)), timeout=5).close()


@dataclass
class _Run:
    """One run: what waits, what is on its way, what was set aside."""

    ray: Any
    executor: RayExecutor
    work: Work
    job: Any
    watch: Watch
    waiting: deque[_Attempt] = field(default_factory=deque)
    running: dict[Any, _Attempt] = field(default_factory=dict)
    aside: list[tuple[Task, BaseException]] = field(default_factory=list)

    def all(self, tasks: Iterable[Task], count: int) -> Iterator[Done]:
        """Submit as many as the cluster has room for, collect as they end."""
        source = iter(tasks)
        key, reference = self._share_job()
        remote = self.ray.remote(num_cpus=1, memory=TASK_MEMORY, max_retries=0)(_run_task)
        spoken, done = time.monotonic(), 0
        try:
            while True:
                self._fill(source, remote, key, reference)
                if not self.running and not self.waiting:
                    break
                for ended in self._collect():
                    done += 1
                    yield ended
                if self.watch.stop.is_set():
                    raise InterruptedJobError(
                        "the job was stopped; the same command goes on where it stopped"
                    )
                if time.monotonic() - spoken > SPEAK_SECONDS:
                    spoken = time.monotonic()
                    logger.info("%s", self._words(done, count))
        finally:
            for reference in self.running:
                self.ray.cancel(reference, force=False)
        self._name_what_was_set_aside(count)

    def _share_job(self) -> tuple[str, Any]:
        """The job goes to the object store once; a worker takes it from there once."""
        reference = self.ray.put(self.job)
        return reference.hex(), reference

    def _fill(self, source: Iterator[Task], remote: Any, key: str, reference: Any) -> None:
        room = 2 * max(1, int(self.ray.cluster_resources().get("CPU", 1))) - len(self.running)
        now = time.monotonic()
        later: deque[_Attempt] = deque()
        while room > 0:
            attempt = self._next(source, now, later)
            if attempt is None:
                break
            settings = (self.executor.batch_size, self.executor.writer_batch_size)
            handle = remote.remote(key, [reference], self.work, attempt.task, settings)
            self.running[handle] = attempt
            room -= 1
        self.waiting.extendleft(reversed(later))

    def _next(self, source: Iterator[Task], now: float, later: deque[_Attempt]) -> _Attempt | None:
        while self.waiting:
            attempt = self.waiting.popleft()
            if attempt.not_before <= now:
                return attempt
            later.append(attempt)
        task = next(source, None)
        return None if task is None else _Attempt(task)

    def _collect(self) -> list[Done]:
        if not self.running:
            time.sleep(_POLL_SECONDS)
            return []
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=_POLL_SECONDS)
        found: list[Done] = []
        for handle in ready:
            attempt = self.running.pop(handle)
            try:
                ended, counts = self.ray.get(handle)
            except Exception as error:  # noqa: BLE001 - whatever a cluster can say is sorted below
                self._failed(attempt, error)
            else:
                self.watch.report(**counts)
                found.append(ended)
        return found

    def _failed(self, attempt: _Attempt, error: BaseException) -> None:
        """Sort a failure into one of the two budgets, and queue the task again or set it aside."""
        exceptions = self.ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            attempt.failures += 1
            error = error.cause if isinstance(error.cause, TokenmillError) else error
        elif isinstance(error, exceptions.WorkerCrashedError | exceptions.OutOfMemoryError):
            # The unit may have killed its worker, or somebody else has: it counts against both.
            attempt.failures += 1
            attempt.faults += 1
        else:
            attempt.faults += 1
        if attempt.failures >= UNIT_ATTEMPTS or attempt.faults >= CLUSTER_ATTEMPTS:
            logger.error("unit %s is set aside: %s", attempt.task.name, _in_a_line(error))
            self.aside.append((attempt.task, error))
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt.failures + attempt.faults - 1))
        logger.warning("unit %s failed (%s); again in %.1f s", attempt.task.name, _in_a_line(error), pause)
        attempt.not_before = time.monotonic() + pause
        self.waiting.append(attempt)

    def _words(self, done: int, count: int) -> str:
        total = self.ray.cluster_resources().get("CPU", 0)
        free = self.ray.available_resources().get("CPU", 0)
        return f"{done} of {count} units done, {total - free:.0f} of {total:.0f} CPUs of the cluster at work"

    def _name_what_was_set_aside(self, count: int) -> None:
        if not self.aside:
            return
        named = "; ".join(
            f"unit {task.name} of {task.source}: {_in_a_line(error)}" for task, error in self.aside
        )
        raise RejectLimitError(
            f"{count - len(self.aside)} of {count} units are done, {len(self.aside)} were set aside after "
            f"{UNIT_ATTEMPTS} attempts: {named}. Mend the cause and run the same command again"
        )


def _in_a_line(error: BaseException) -> str:
    """The sentence in an error: Ray puts a traceback before the one of a task, and advice after its own."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) or "::" in lines[0] else lines[0]


# Of this worker process: unpickling a vocabulary for every unit would cost more than the unit.
_JOBS: dict[str, Any] = {}


def _run_task(
    key: str, reference: list[Any], work: Work, task: Task, settings: tuple[int | None, int | None]
) -> Any:
    """On a worker: do one unit, and give back its receipt with the counts that the driver adds up."""
    import ray

    if key not in _JOBS:
        _JOBS.clear()
        _JOBS[key] = ray.get(reference[0])
    counts = {"bytes": 0, "documents": 0, "tokens": 0}

    def report(**amounts: int) -> None:
        for name, amount in amounts.items():
            counts[name] = counts.get(name, 0) + amount

    batch_size, writer_batch_size = settings
    control = Control(threads=1, batch_size=batch_size, writer_batch_size=writer_batch_size, report=report)
    try:
        return timed(work, _JOBS[key], task, control), counts
    except TokenmillError as error:
        raise type(error)(f"on host {socket.gethostname()} (process {os.getpid()}): {error}") from error
    except OSError as error:
        raise TokenmillError(f"on host {socket.gethostname()}: {error}") from error
