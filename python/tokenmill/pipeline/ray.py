"""Run units as tasks of a Ray cluster. Settings, unit ids and receipts travel; text and tokens never do.

A worker process gets the job with its vocabulary once and keeps it. The driver sleeps until a unit ends. A
unit that fails is retried with growing pauses; one that keeps failing is set aside while the others finish.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tokenmill.datasets.store import store_variables
from tokenmill.errors import ConfigError, RejectLimitError, StoreError, TokenmillError, explain_missing
from tokenmill.pipeline.executors import Control, time_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenmill.pipeline.executors import Done, Work

logger = logging.getLogger("tokenmill.ray")
TASK_MEMORY = 512 << 20  # blocks in flight, the encoder's tables and its cache
# A unit that fails or kills its worker is tried three times more; a lost node does not count against it.
MOST_FAILURES, MOST_LOSSES = 4, 20
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LOG_SECONDS = 30.0
_POLL_SECONDS = 0.2
_CLUSTER_SECONDS = 1.0


@dataclass(frozen=True)
class RayExecutor:
    """Runs units on an existing cluster; the address `auto` is the cluster this machine is part of."""

    in_process: ClassVar[bool] = False
    address: str = "auto"

    def run(self, work: Work, job: Any, tasks: Iterable[Any], count: int, control: Control) -> Iterator[Done]:
        """Yield each task as it ends; raise `RejectLimitError` at the end if units were set aside."""
        ray = connect(self.address)
        # The job goes to the object store once; in a list, or Ray would unpickle it for every task.
        reference = ray.put((job, store_variables()))
        remote = ray.remote(num_cpus=1, memory=TASK_MEMORY, max_retries=0, scheduling_strategy="SPREAD")(
            _run_task
        )
        shared = (reference.hex(), [reference], work, control.batch_size)
        return ClusterRun(ray, lambda task: remote.remote(*shared, task), control).run(tasks, count)


def connect(address: str) -> Any:
    """Return the connected `ray` module, or raise `ConfigError` if no cluster answers."""
    with explain_missing("ray", "ray", "the ray executor"):
        import ray
    if ray.is_initialized():
        return ray
    try:
        _check_reachable(address)
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"no Ray cluster at {address!r} ({first}); "
            "start one with `ray start --head`, or give --ray-address"
        ) from error
    return ray


def _check_reachable(address: str) -> None:
    """Raise `OSError` at once if nothing listens; Ray itself would retry for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "://" not in address:
        socket.create_connection((host, int(port)), timeout=5).close()


@dataclass
class Attempt:
    """A task, its failures, the losses of its node, and the earliest time of its next try."""

    task: Any
    failures: int = 0
    losses: int = 0
    not_before: float = 0.0
    last: BaseException | None = None

    def schedule_retry(self, now: float) -> bool:
        """Set the pause before the next try, which doubles each time; return False if there is none."""
        self.not_before = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self.failures + self.losses - 1))
        return self.failures < MOST_FAILURES and self.losses < MOST_LOSSES


@dataclass
class ClusterRun:
    """One run as the driver sees it. `submit` returns a handle whose value is `(Done, counts)`."""

    ray: Any
    submit: Callable[[Any], Any]
    control: Control
    waiting: deque[Attempt] = field(default_factory=deque)
    running: dict[Any, Attempt] = field(default_factory=dict)
    aside: list[Attempt] = field(default_factory=list)
    _cpus: int = 1
    _measured: float = float("-inf")

    def run(self, tasks: Iterable[Any], count: int) -> Iterator[Done]:
        """Submit as many tasks as the cluster has room for, and yield them as they end."""
        source, done, logged = iter(tasks), 0, time.monotonic()
        try:
            while self._fill(source):
                for ended in self._collect():
                    done += 1
                    yield ended
                self.control.check()
                if time.monotonic() - logged > LOG_SECONDS:
                    logged = time.monotonic()
                    logger.info("%d of %d units done", done, count)
        finally:
            for handle in self.running:
                self.ray.cancel(handle, force=False)
        if self.aside:
            named = "; ".join(
                f"unit {attempt.task.name} of {attempt.task.source} after "
                f"{attempt.failures + attempt.losses} attempts: {_summarise(attempt.last)}"
                for attempt in self.aside
            )
            raise RejectLimitError(
                f"{done} of {count} units are done, {len(self.aside)} were set aside: {named}. "
                "Fix the cause and run the same command again"
            )

    def _fill(self, source: Iterator[Any]) -> bool:
        """Submit one task for every CPU and one more for each to find next; return False at the end."""
        now = time.monotonic()
        if now - self._measured >= _CLUSTER_SECONDS:
            self._measured = now
            self._cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            busy = min(len(self.running), self._cpus)
            self.control.show_workers(f"{busy} of {self._cpus} CPUs at work")
        while len(self.running) < 2 * self._cpus:
            # One whose pause is over, else a new task.
            attempt = next((each for each in self.waiting if each.not_before <= now), None)
            if attempt is not None:
                self.waiting.remove(attempt)
            elif (task := next(source, None)) is not None:
                attempt = Attempt(task)
            else:
                break
            self.running[self.submit(attempt.task)] = attempt
        return bool(self.running or self.waiting)

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
            except Exception as error:  # noqa: BLE001 - whatever a cluster can raise is sorted below
                self._fail(attempt, error)
            else:
                self.control.report(**counts)
                found.append(ended)
        return found

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        """Count a failure, then queue the task again or set it aside."""
        exceptions = self.ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            attempt.failures += 1
            error = error.cause if isinstance(error.cause, TokenmillError) else error
        elif isinstance(error, exceptions.WorkerCrashedError | exceptions.OutOfMemoryError):
            attempt.failures += 1
        else:
            attempt.losses += 1
        attempt.last = error
        again = attempt.schedule_retry(time.monotonic())
        if not again and isinstance(error, StoreError):
            # The client has retried already, and every unit would fail in the same way.
            raise error
        (self.waiting if again else self.aside).append(attempt)
        what = "it will be retried" if again else "it is set aside"
        logger.warning("unit %s failed (%s); %s", attempt.task.name, _summarise(error), what)


def _summarise(error: BaseException | None) -> str:
    """Return an error on one line: Ray puts a traceback before a task's message, and advice after its own."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) or "::" in lines[0] else lines[0]


# Kept in each worker process: unpickling a vocabulary for every unit would cost more than the unit.
_JOBS: dict[str, Any] = {}
_OWN_VARIABLES = frozenset(os.environ)


def _load_job(key: str, reference: list[Any]) -> Any:
    """Return the job of this run. A node keeps its own variables for stores and gets the driver's others."""
    if key not in _JOBS:
        import ray

        _JOBS.clear()
        job, variables = ray.get(reference[0])
        os.environ.update({name: value for name, value in variables.items() if name not in _OWN_VARIABLES})
        _JOBS[key] = job
    return _JOBS[key]


def _run_task(
    key: str, reference: list[Any], work: Work, batch_size: int | None, task: Any
) -> tuple[Done, Counter[str]]:
    """On a worker: run one task, and return its result with the counts that the driver adds up."""
    counts: Counter[str] = Counter()
    control = Control(batch_size=batch_size, report=lambda **amounts: counts.update(amounts))
    try:
        return time_work(work, _load_job(key, reference), task, control), counts
    except TokenmillError as error:
        raise type(error)(f"on host {socket.gethostname()} (process {os.getpid()}): {error}") from error
    except OSError as error:
        raise TokenmillError(f"on host {socket.gethostname()}: {error}") from error
