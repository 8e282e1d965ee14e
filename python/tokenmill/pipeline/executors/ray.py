"""Units as plain tasks of a Ray cluster: settings, unit ids and receipts travel, text and tokens never.

A task is one unit. What a worker process needs beyond that (our modules, the job with its vocabulary, the
encoder's tables and cache) it gets once and keeps. `cluster_run.py` says what happens to a unit that fails.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tokenmill.datasets.store.store import store_variables
from tokenmill.errors import ConfigError, TokenmillError, explain_missing
from tokenmill.pipeline.control import Control
from tokenmill.pipeline.executors.base import time_work
from tokenmill.pipeline.executors.cluster_run import ClusterRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.pipeline.control import Batching
    from tokenmill.pipeline.executors.base import Done, RunContext, Task, Work
    from tokenmill.settings.schema import ExecutionConfig

logger = logging.getLogger("tokenmill.ray")

TASK_MEMORY = 512 << 20  # blocks in flight, the encoder's tables and its cache, with room
# A cluster of thousands has no use for a driver that warms every CPU: its jobs are long.
MOST_WARMED = 256


@dataclass
class RayExecutor:
    """Runs units on a cluster that exists; `address` is Ray's, `auto` the one this machine is part of."""

    in_process: ClassVar[bool] = False
    address: str = "auto"
    _opening: Future[Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def make(cls, execution: ExecutionConfig) -> RayExecutor:
        """For the cluster of the settings, or the one that this machine is part of."""
        return cls(execution.ray_address or "auto")

    def warm(self) -> None:
        """Connect and let every worker import what units need; an error is kept for `run`."""
        if self._opening is None:
            self._opening = Future()
            with suppress(ImportError):
                # First, and here: beside other work in this process it would only take turns with it, and
                # nothing starts elsewhere before it is done.
                import ray  # noqa: F401
            threading.Thread(target=self._open, name="tokenmill-ray", daemon=True).start()

    def _open(self) -> None:
        opening = self._opening or Future()
        try:
            ray = connect(self.address)
            warm_workers(ray)
        except BaseException as error:  # noqa: BLE001 - raised where the cluster is needed
            opening.set_exception(error)
        else:
            opening.set_result(ray)

    def run(
        self, work: Work, job: Any, tasks: Iterable[Task], count: int, context: RunContext
    ) -> Iterator[Done]:
        """Each task as it ends; units set aside are named by an error at the end."""
        ray = self._opening.result() if self._opening is not None else connect(self.address)
        # The job goes to the object store once, and to each worker process once; in a list, or Ray would
        # unpickle it for every task.
        reference = ray.put((job, store_variables()))
        remote = ray.remote(num_cpus=1, memory=TASK_MEMORY, max_retries=0, scheduling_strategy="SPREAD")(
            _run_task
        )
        shared = (reference.hex(), [reference], work, context.batching)
        return ClusterRun(ray, lambda task: remote.remote(*shared, task), context).run(tasks, count)


EXECUTOR = RayExecutor


def connect(address: str) -> Any:
    """The `ray` module, connected. Raises `MissingExtraError`, or `ConfigError` if no cluster is there."""
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
    """Raise at once where nothing is listening; Ray itself would go on trying for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "://" not in address:
        socket.create_connection((host, int(port)), timeout=5).close()


def warm_workers(ray: Any) -> None:
    """Start the worker processes of every node, each with our modules imported; nobody waits for it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    left = MOST_WARMED
    for node in ray.nodes():
        cpus = min(left, int(node["Resources"].get("CPU", 0))) if node["Alive"] else 0
        # Bound to its node, or one quick worker would take the tasks of all.
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)
        remote = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=there)(_import_modules)
        for _ in range(cpus):
            remote.remote()
        left -= cpus


def _import_modules() -> None:
    """On a worker: nothing, but to unpickle this function imports what the first unit would."""


# Kept in each worker process: unpickling a vocabulary for every unit would cost more than the unit.
_JOBS: dict[str, Any] = {}
_OWN_VARIABLES = frozenset(os.environ)


def _load_job(key: str, reference: list[Any]) -> Any:
    """The job of this run. A node keeps its own settings for stores; it gets the driver's for the rest."""
    if key not in _JOBS:
        import ray

        _JOBS.clear()
        job, variables = ray.get(reference[0])
        os.environ.update({name: value for name, value in variables.items() if name not in _OWN_VARIABLES})
        _JOBS[key] = job
    return _JOBS[key]


def _run_task(
    key: str, reference: list[Any], work: Work, batching: Batching, task: Task
) -> tuple[Done, dict[str, int], str]:
    """On a worker: do one unit, and return its receipt with the counts that the driver adds up."""
    import ray

    counts = {"bytes": 0, "documents": 0, "tokens": 0}

    def report(**amounts: int) -> None:
        for name, amount in amounts.items():
            counts[name] = counts.get(name, 0) + amount

    control = Control(threads=1, batching=batching, report=report)
    try:
        node = str(ray.get_runtime_context().get_node_id())
        return time_work(work, _load_job(key, reference), task, control), counts, node
    except TokenmillError as error:
        raise type(error)(f"on host {socket.gethostname()} (process {os.getpid()}): {error}") from error
    except OSError as error:
        raise TokenmillError(f"on host {socket.gethostname()}: {error}") from error
