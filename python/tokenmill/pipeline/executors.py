"""Run units on the threads of this process, or on a Ray cluster. The output bytes are the same."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from tokenmill.datasets.store import store_variables
from tokenmill.errors import (
    ConfigError,
    InterruptedJobError,
    RejectLimitError,
    StoreError,
    TokenmillError,
    explain_missing,
)
from tokenmill.pipeline.output import read_budget
from tokenmill.settings.schema import ExecutionConfig

Work = Callable[[Any, Any, "Control"], Any]
Done = tuple[Any, Any]  # a task and its result

# Small enough to stay in cache between reading and encoding: 1 MiB took 5-20 % less time than 4 MiB.
DEFAULT_BLOCK_BYTES = 1 << 20
MIN_BLOCK_BYTES = 64 << 10
# Blocks of one unit in flight (read, two waiting, written, and one per encoding thread), times the memory of
# a block with its raw bytes and ids relative to its text.
BLOCKS_IN_FLIGHT = 8
BLOCKS_PER_THREAD = 4
# A block holds the GIL for up to 0.5 ms, so with blocks of 1 MiB about 20 threads contend for it. Blocks grow
# by one size per this many threads, up to four sizes.
THREADS_PER_BLOCK_SIZE = 16
_WAKE_SECONDS = 0.2


@dataclass(frozen=True)
class Control:
    """Settings of a run for each task that do not affect the output: sizes, stop flag, report function."""

    threads: int = 1
    block_bytes: int = DEFAULT_BLOCK_BYTES
    batch_size: int | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    report: Callable[..., None] = lambda **_counts: None

    def check(self) -> None:
        """Raise `InterruptedJobError` if the job must stop."""
        if self.stop.is_set():
            raise InterruptedJobError("the job was stopped; run the same command again to continue")


@dataclass(frozen=True)
class LocalExecutor:
    """Run units on threads, since the core releases the GIL. A single unit gets all threads."""

    threads: int
    memory_budget: int

    def run(self, work: Work, job: Any, tasks: Iterable[Any], count: int, control: Control) -> Iterator[Done]:
        """Yield each of `count` tasks as it ends. The first error stops the running tasks and is raised."""
        workers = max(1, min(self.threads, count))
        threads = max(1, self.threads // workers)
        share = self.memory_budget // (workers * (BLOCKS_IN_FLIGHT + BLOCKS_PER_THREAD * threads))
        usual = DEFAULT_BLOCK_BYTES * min(4, -(-self.threads // THREADS_PER_BLOCK_SIZE))
        block_bytes = max(MIN_BLOCK_BYTES, min(usual, share))
        control = replace(control, threads=threads, block_bytes=block_bytes)
        waiting = iter(tasks)
        with ThreadPoolExecutor(workers, thread_name_prefix="tokenmill-unit") as pool:
            running: dict[Future[Any], Any] = {}
            try:
                while True:
                    for task in islice(waiting, workers - len(running)):
                        running[pool.submit(work, job, task, control)] = task
                    if not running:
                        return
                    # A short wait lets the main thread run its signal handlers.
                    done, _ = wait(running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield running.pop(future), future.result()
                    control.check()
            except GeneratorExit:
                # The consumer has failed. Ignore task errors, which a closing generator would only print.
                control.stop.set()
                raise
            except BaseException:
                control.stop.set()
                # The first error of a running task other than our own interruption.
                errors = (future.exception() for future in wait(running).done)
                for error in errors:
                    if error is not None and not isinstance(error, InterruptedJobError):
                        raise error from None
                raise


def choose_executor(execution: ExecutionConfig) -> Executor:
    """Return the executor of the settings. A cluster is contacted only when tasks are run."""
    if execution.executor == "ray":
        return RayExecutor(execution.ray_address or "auto")
    return LocalExecutor(*read_budget(execution))


logger = logging.getLogger("tokenmill.ray")
TASK_MEMORY = 512 << 20  # blocks in flight, the encoder's tables and its cache
# Ray retries at once, so the same unit may lose several workers of a failing node in a row.
RETRIES = 7


@dataclass(frozen=True)
class RayExecutor:
    """Run units on an existing cluster. The address `auto` is the cluster of this machine."""

    address: str = "auto"

    def run(self, work: Work, job: Any, tasks: Iterable[Any], count: int, control: Control) -> Iterator[Done]:
        """Yield each task as it ends. Raise `RejectLimitError` at the end if units failed."""
        ray = connect(self.address)
        # The job is stored once. The reference is in a list, or Ray would unpickle the job for every task.
        reference = ray.put((job, store_variables()))
        shared = (reference.hex(), [reference], work, control.batch_size)
        options = {"num_cpus": 1, "memory": TASK_MEMORY, "max_retries": RETRIES, "retry_exceptions": True}
        remote = ray.remote(scheduling_strategy="SPREAD", **options)(_run_task)
        source = iter(tasks)
        running: dict[Any, Any] = {}
        aside: list[str] = []
        done = 0
        try:
            while True:
                cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
                # One running and one queued task per CPU.
                for task in islice(source, max(0, 2 * cpus - len(running))):
                    running[remote.remote(*shared, task)] = task
                if not running:
                    break
                for handle in ray.wait(list(running), num_returns=1, timeout=_WAKE_SECONDS)[0]:
                    task = running.pop(handle)
                    try:
                        result, counts = ray.get(handle)
                    except ray.exceptions.RayError as error:
                        cause = getattr(error, "cause", None) or error
                        if isinstance(cause, StoreError):  # it would affect every unit
                            raise cause from None
                        words = (str(cause) or type(cause).__name__).splitlines()[0]
                        aside.append(f"unit {task.unit.name} of {task.inputs[0].url}: {words}")
                        logger.warning("set aside after %d attempts: %s", 1 + RETRIES, aside[-1])
                    else:
                        done += 1
                        control.report(**counts)
                        yield task, result
                control.check()
        finally:
            for handle in running:
                ray.cancel(handle, force=False)
        if aside:
            raise RejectLimitError(
                f"{done} of {count} units are done, {len(aside)} were set aside: {'; '.join(aside)}. "
                "Fix the cause and run the same command again"
            )


Executor = LocalExecutor | RayExecutor


def connect(address: str) -> Any:
    """Return the connected `ray` module, or raise `ConfigError` if the cluster is unreachable."""
    with explain_missing("ray", "ray", "the ray executor"):
        import ray
    if ray.is_initialized():
        return ray
    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdecimal() and "://" not in address:
            # Fail at once if the port is closed. Ray itself would retry for minutes.
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"no Ray cluster at {address!r} ({first}); "
            "start one with `ray start --head`, or give `ray_address`"
        ) from error
    return ray


# Kept in each worker process: unpickling a vocabulary for every unit would cost more than the unit.
_JOBS: dict[str, Any] = {}
_OWN_VARIABLES = frozenset(os.environ)


def _run_task(
    key: str, reference: list[Any], work: Work, batch_size: int | None, task: Any
) -> tuple[Any, Counter[str]]:
    """Run one task on a worker, and return its result with the counts that the driver adds up."""
    counts: Counter[str] = Counter()
    control = Control(batch_size=batch_size, report=lambda **amounts: counts.update(amounts))
    try:
        if key not in _JOBS:
            import ray

            _JOBS.clear()
            _JOBS[key], variables = ray.get(reference[0])
            # A node keeps its own store variables and gets missing ones from the driver.
            os.environ.update(
                {name: value for name, value in variables.items() if name not in _OWN_VARIABLES}
            )
        return work(_JOBS[key], task, control), counts
    except TokenmillError as error:
        raise type(error)(f"on host {socket.gethostname()} (process {os.getpid()}): {error}") from error
    except OSError as error:
        raise TokenmillError(f"on host {socket.gethostname()}: {error}") from error
