"""Run units as tasks of a Ray cluster. Settings, unit ids and receipts travel; text and tokens never do.

A worker process gets the job with its vocabulary once and keeps it. Ray retries a unit that fails or loses
its node; one that keeps failing is set aside while the others finish.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from tokenmill.datasets.store import store_variables
from tokenmill.errors import ConfigError, RejectLimitError, StoreError, TokenmillError, explain_missing
from tokenmill.pipeline.executors import Control, time_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.pipeline.executors import Done, Work

logger = logging.getLogger("tokenmill.ray")
TASK_MEMORY = 512 << 20  # blocks in flight, the encoder's tables and its cache
# Ray retries at once, so the same unit may lose several workers of a failing node in a row.
RETRIES = 7
LOG_SECONDS = 30.0
_POLL_SECONDS = 0.2


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
        shared = (reference.hex(), [reference], work, control.batch_size)
        options = {"num_cpus": 1, "memory": TASK_MEMORY, "max_retries": RETRIES, "retry_exceptions": True}
        remote = ray.remote(scheduling_strategy="SPREAD", **options)(_run_task)
        source, logged = iter(tasks), time.monotonic()
        running: dict[Any, Any] = {}
        aside: list[str] = []
        done = 0
        try:
            while True:
                cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
                # One task for every CPU, and one more for each to find next.
                for task in islice(source, max(0, 2 * cpus - len(running))):
                    running[remote.remote(*shared, task)] = task
                if not running:
                    break
                control.show_workers(f"{min(len(running), cpus)} of {cpus} CPUs at work")
                for handle in ray.wait(list(running), num_returns=1, timeout=_POLL_SECONDS)[0]:
                    task = running.pop(handle)
                    try:
                        ended, counts = ray.get(handle)
                    except ray.exceptions.RayError as error:
                        aside.append(_set_aside(task, error))
                    else:
                        done += 1
                        control.report(**counts)
                        yield ended
                control.check()
                if time.monotonic() - logged > LOG_SECONDS:
                    logged = time.monotonic()
                    logger.info("%d of %d units done", done, count)
        finally:
            for handle in running:
                ray.cancel(handle, force=False)
        if aside:
            raise RejectLimitError(
                f"{done} of {count} units are done, {len(aside)} were set aside: {'; '.join(aside)}. "
                "Fix the cause and run the same command again"
            )


def _set_aside(task: Any, error: Exception) -> str:
    """Return a description of a unit that failed; raise a `StoreError`, with which every unit would fail."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, StoreError):
        raise cause
    words = _summarise(cause if isinstance(cause, TokenmillError) else error)
    logger.warning("unit %s failed (%s); it is set aside", task.name, words)
    return f"unit {task.name} of {task.source} after {1 + RETRIES} attempts: {words}"


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


def _summarise(error: BaseException) -> str:
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
