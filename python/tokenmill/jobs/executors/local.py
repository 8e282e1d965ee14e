"""The default executor: threads of this process, since the core releases the GIL."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import InterruptedJobError
from tokenmill.jobs.executors.base import timed
from tokenmill.jobs.units.control import DEFAULT_BLOCK_BYTES, Control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.jobs.executors.base import Done, Task, Watch, Work

MIN_BLOCK_BYTES = 64 << 10
# Blocks of one unit in flight (read, waiting, waiting, written, and one for each thread that encodes), times
# what a block's text weighs with its raw bytes and its ids.
BLOCKS_IN_FLIGHT = 8
BLOCKS_PER_THREAD = 4
_WAKE_SECONDS = 0.2


@dataclass(frozen=True)
class LocalExecutor:
    """Units side by side, as many as there are threads; a lone unit gets all threads for itself."""

    threads: int
    memory_budget: int
    batch_size: int | None = None
    writer_batch_size: int | None = None
    keep_in_memory: bool = False

    def warm(self) -> None:
        """Threads need no time to start."""

    def run(self, work: Work, job: Any, tasks: Iterable[Task], count: int, watch: Watch) -> Iterator[Done]:
        """Each task as it ends."""
        workers = max(1, min(self.threads, count))
        control = self._control(workers, watch)
        waiting = iter(tasks)
        with ThreadPoolExecutor(workers, thread_name_prefix="tokenmill-unit") as pool:
            running: dict[Future[Any], Task] = {}
            try:
                while True:
                    for task in islice(waiting, workers - len(running)):
                        running[pool.submit(timed, work, job, task, control)] = task
                    if not running:
                        return
                    # A short wait lets the main thread run its signal handlers.
                    done, _ = wait(running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
                    for future in done:
                        del running[future]
                        yield future.result()
                    control.check()
            except BaseException:
                watch.stop.set()
                raise_first(running)
                raise

    def _control(self, workers: int, watch: Watch) -> Control:
        threads = max(1, self.threads // workers)
        share = self.memory_budget // (workers * (BLOCKS_IN_FLIGHT + BLOCKS_PER_THREAD * threads))
        return Control(
            threads=threads,
            block_bytes=max(MIN_BLOCK_BYTES, min(DEFAULT_BLOCK_BYTES, share)),
            batch_size=self.batch_size,
            writer_batch_size=self.writer_batch_size,
            keep_in_memory=self.keep_in_memory,
            stop=watch.stop,
            report=watch.report,
            trusted=watch.trusted,
        )


def raise_first(running: dict[Future[Any], Task]) -> None:
    """Wait for what is under way; an error of its own (not the stop that we sent) says more than ours."""
    wait(running)
    for future in running:
        error = future.exception()
        if error is not None and not isinstance(error, InterruptedJobError):
            raise error
