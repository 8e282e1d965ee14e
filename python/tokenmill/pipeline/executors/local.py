"""The default executor: threads of this process, since the core releases the GIL."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from tokenmill.errors import InterruptedJobError
from tokenmill.pipeline.control import DEFAULT_BLOCK_BYTES, Control
from tokenmill.pipeline.executors.base import time_work
from tokenmill.pipeline.executors.choose import read_budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.pipeline.executors.base import Done, RunContext, Task, Work
    from tokenmill.settings.schema import ExecutionConfig

MIN_BLOCK_BYTES = 64 << 10
# Blocks of one unit in flight (read, waiting, waiting, written, and one for each thread that encodes), times
# what a block's text weighs with its raw bytes and its ids.
BLOCKS_IN_FLIGHT = 8
BLOCKS_PER_THREAD = 4
# A block needs Python's lock for up to 0.5 ms, so with blocks of 1 MiB some 20 threads would begin to wait
# for it (benchmarks/many_cores.py): for every so many threads a block is one size larger, up to four.
THREADS_PER_BLOCK_SIZE = 16
_WAKE_SECONDS = 0.2


@dataclass(frozen=True)
class LocalExecutor:
    """Units side by side, as many as there are threads; a lone unit gets all threads for itself."""

    in_process: ClassVar[bool] = True
    threads: int
    memory_budget: int

    @classmethod
    def make(cls, execution: ExecutionConfig) -> LocalExecutor:
        """With the threads and the memory of the settings."""
        return cls(*read_budget(execution))

    def warm(self) -> None:
        """Threads need no time to start."""

    def run(
        self, work: Work, job: Any, tasks: Iterable[Task], count: int, context: RunContext
    ) -> Iterator[Done]:
        """Each task as it ends."""
        workers = max(1, min(self.threads, count))
        control = self._make_control(workers, context)
        waiting = iter(tasks)
        with ThreadPoolExecutor(workers, thread_name_prefix="tokenmill-unit") as pool:
            running: dict[Future[Any], Task] = {}
            try:
                while True:
                    for task in islice(waiting, workers - len(running)):
                        running[pool.submit(time_work, work, job, task, control)] = task
                    if not running:
                        return
                    # A short wait lets the main thread run its signal handlers.
                    done, _ = wait(running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        del running[future]
                        yield future.result()
                    control.check()
            except GeneratorExit:
                # Whoever takes the results has failed and says why. Another error, raised while this
                # generator is closed, would reach nobody: Python would only print its traceback.
                context.stop.set()
                raise
            except BaseException:
                context.stop.set()
                raise_first_error(running)
                raise

    def _make_control(self, workers: int, context: RunContext) -> Control:
        threads = max(1, self.threads // workers)
        share = self.memory_budget // (workers * (BLOCKS_IN_FLIGHT + BLOCKS_PER_THREAD * threads))
        return Control(
            threads=threads,
            block_bytes=max(MIN_BLOCK_BYTES, min(choose_block_bytes(self.threads), share)),
            batching=context.batching,
            stop=context.stop,
            report=context.report,
            confirm=context.confirm,
        )


EXECUTOR = LocalExecutor


def choose_block_bytes(threads: int) -> int:
    """The bytes of a block where memory is not the limit."""
    return DEFAULT_BLOCK_BYTES * min(4, -(-threads // THREADS_PER_BLOCK_SIZE))


def raise_first_error(running: dict[Future[Any], Task]) -> None:
    """Wait for the running tasks; raise their first error that is not the stop we sent: it says more."""
    wait(running)
    for future in running:
        error = future.exception()
        if error is not None and not isinstance(error, InterruptedJobError):
            raise error
