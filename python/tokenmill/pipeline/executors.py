"""Run tasks on the threads of this process, or on the executor that the settings name.

An executor takes tasks and yields results in whatever order they end. It never sees a document or a token,
and no decision of it may change the bytes that come out.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from tokenmill.errors import ConfigError, InterruptedJobError
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tokenmill.settings.schema import ExecutionConfig
    from tokenmill.sources import InputFile

    # A module-level function (`run_unit`, `hash_unit`, `count_part`) of the job, a task and a `Control`.
    Work = Callable[[Any, Any, "Control"], Any]

# Small enough to stay in cache between reading and encoding: 1 MiB took 5-20 % less time than 4 MiB.
DEFAULT_BLOCK_BYTES = 1 << 20
MIN_BLOCK_BYTES = 64 << 10
# Blocks of one unit in flight (read, waiting, waiting, written, and one for each thread that encodes), times
# what a block's text weighs with its raw bytes and its ids.
BLOCKS_IN_FLIGHT = 8
BLOCKS_PER_THREAD = 4
# A block holds the GIL for up to 0.5 ms, so with blocks of 1 MiB some 20 threads would begin to wait for it
# (benchmarks/many_cores.py): blocks grow by one size for every so many threads, up to four sizes.
THREADS_PER_BLOCK_SIZE = 16
_WAKE_SECONDS = 0.2


def do_nothing(*_arguments: Any, **_counts: int) -> None:
    """Ignore a report."""


@dataclass(frozen=True)
class Control:
    """Hold what a run gives each task: sizes, a way to stop, and where to report. None of it changes bytes.

    `await_parity` returns when encoded ids may be published, or raises; only this process can call it.
    """

    threads: int = 1
    block_bytes: int = DEFAULT_BLOCK_BYTES
    batch_size: int | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    report: Callable[..., None] = do_nothing
    await_parity: Callable[[], None] = do_nothing
    show_workers: Callable[[str], None] = do_nothing

    def check(self) -> None:
        """Raise `InterruptedJobError` if the job was asked to stop."""
        if self.stop.is_set():
            raise InterruptedJobError("the job was stopped; run the same command again to continue")


class Done(NamedTuple):
    """A finished task, its result, and the seconds it took where it ran."""

    task: Any
    result: Any
    seconds: float


def time_work(work: Work, job: Any, task: Any, control: Control) -> Done:
    """Run one task and time it."""
    started = time.monotonic()
    return Done(task, work(job, task, control), time.monotonic() - started)


class Executor(Protocol):
    """Runs `work` on every task. A task has a `name` within the job, and a `source` for messages."""

    in_process: ClassVar[bool]
    """True if tasks run in this process and share its memory and disks."""

    def run(self, work: Work, job: Any, tasks: Iterable[Any], count: int, control: Control) -> Iterator[Done]:
        """Yield each of `count` tasks as it ends.

        The first error stops the running tasks and is raised. When `control.stop` is set, tasks end at their
        next block and `InterruptedJobError` is raised.
        """


@dataclass(frozen=True)
class LocalExecutor:
    """Runs units on threads, since the core releases the GIL; a single unit gets all threads."""

    in_process: ClassVar[bool] = True
    threads: int
    memory_budget: int

    def run(self, work: Work, job: Any, tasks: Iterable[Any], count: int, control: Control) -> Iterator[Done]:
        """Yield each task as it ends."""
        workers = max(1, min(self.threads, count))
        threads = max(1, self.threads // workers)
        share = self.memory_budget // (workers * (BLOCKS_IN_FLIGHT + BLOCKS_PER_THREAD * threads))
        block_bytes = max(MIN_BLOCK_BYTES, min(choose_block_bytes(self.threads), share))
        control = replace(control, threads=threads, block_bytes=block_bytes)
        waiting = iter(tasks)
        with ThreadPoolExecutor(workers, thread_name_prefix="tokenmill-unit") as pool:
            running: set[Future[Done]] = set()
            try:
                while True:
                    for task in islice(waiting, workers - len(running)):
                        running.add(pool.submit(time_work, work, job, task, control))
                    if not running:
                        return
                    # A short wait lets the main thread run its signal handlers.
                    done, _ = wait(running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        running.remove(future)
                        yield future.result()
                    control.check()
            except GeneratorExit:
                # The consumer has failed. An error raised while a generator is closed is only printed.
                control.stop.set()
                raise
            except BaseException:
                control.stop.set()
                _raise_first_error(running)
                raise


def choose_block_bytes(threads: int) -> int:
    """Return the bytes of a block where memory is not the limit."""
    return DEFAULT_BLOCK_BYTES * min(4, -(-threads // THREADS_PER_BLOCK_SIZE))


def _raise_first_error(running: set[Future[Done]]) -> None:
    """Wait for the running tasks and raise their first error that is not our own stop."""
    wait(running)
    for future in running:
        error = future.exception()
        if error is not None and not isinstance(error, InterruptedJobError):
            raise error


def read_budget(execution: ExecutionConfig) -> tuple[int, int]:
    """Return the threads and the bytes of memory that this process may use."""
    return execution.threads or 1, execution.memory_budget or (256 << 20)


def _make_ray(execution: ExecutionConfig) -> Executor:
    from tokenmill.pipeline.ray import RayExecutor  # here, since few jobs run on a cluster

    return RayExecutor(execution.ray_address or "auto")


EXECUTORS: dict[str, Callable[[ExecutionConfig], Executor]] = {
    "local": lambda execution: LocalExecutor(*read_budget(execution)),
    "ray": _make_ray,
}


def choose_executor(execution: ExecutionConfig) -> Executor:
    """Return the executor of the settings; a cluster is contacted only when tasks are run."""
    return EXECUTORS[execution.executor](execution)


def check_inputs(executor: Executor, inputs: Sequence[InputFile]) -> None:
    """Raise `ConfigError` if other processes would have to read data in this process's memory."""
    if not executor.in_process and any(file.format == MEMORY for file in inputs):
        raise ConfigError(
            "data in memory cannot be read by other processes: save it to files first, for example with "
            "save_to_disk, and name those, or use executor='local'"
        )
