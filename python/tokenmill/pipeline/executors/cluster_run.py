"""One run on a cluster, seen from the driver: what waits, what is on its way, who is at work.

It is handed the `ray` module and never imports it. The driver sleeps until a unit ends; it looks at the size
of the cluster once a second.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InterruptedJobError, RejectLimitError, StoreError, TokenmillError
from tokenmill.pipeline.executors.base import Workforce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenmill.pipeline.executors.base import Done, RunContext, Task

logger = logging.getLogger("tokenmill.ray")

# A unit that fails or kills its worker is tried three times more; a lost node does not count against it.
MOST_FAILURES, MOST_LOSSES = 4, 20
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LOG_SECONDS = 30.0
_POLL_SECONDS = 0.2
_CLUSTER_SECONDS = 1.0


@dataclass
class Attempt:
    """One task on its way: how often it failed, how often its node was lost, when it may go again."""

    task: Task
    failures: int = 0
    losses: int = 0
    not_before: float = 0.0
    last: BaseException | None = None

    def schedule_retry(self, now: float) -> bool:
        """Set the pause before the next try, which doubles each time; False if there is to be none."""
        tries = self.failures + self.losses
        self.not_before = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1))
        return self.failures < MOST_FAILURES and self.losses < MOST_LOSSES


@dataclass
class ClusterRun:
    """`submit` sends a task and gives a handle; the handle's value is `(Done, counts, node)`."""

    ray: Any
    submit: Callable[[Task], Any]
    context: RunContext
    waiting: deque[Attempt] = field(default_factory=deque)
    running: dict[Any, Attempt] = field(default_factory=dict)
    aside: list[Attempt] = field(default_factory=list)
    _cpus: int = 1
    _measured: float = float("-inf")
    _logged: float = field(default_factory=time.monotonic)
    _began: float = field(default_factory=time.monotonic)
    _busy: dict[str, float] = field(default_factory=dict)

    def run(self, tasks: Iterable[Task], count: int) -> Iterator[Done]:
        """Submit as many as the cluster has room for, collect as they end."""
        source, done = iter(tasks), 0
        try:
            while self._fill(source):
                for ended in self._collect():
                    done += 1
                    yield ended
                if self.context.stop.is_set():
                    raise InterruptedJobError("the job was stopped; run the same command again to continue")
                self._log_progress(done, count)
        finally:
            for handle in self.running:
                self.ray.cancel(handle, force=False)
        self.context.workers(self.count_workers())
        logger.info("Cluster: %s", self.count_workers().words)
        self._raise_if_aside(count)

    def _fill(self, source: Iterator[Task]) -> bool:
        """Submit one task for every CPU and one more for each to find next; False when nothing is left."""
        now = time.monotonic()
        if now - self._measured >= _CLUSTER_SECONDS:
            self._measured = now
            self._cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            self.context.workers(self.count_workers())
        while len(self.running) < 2 * self._cpus:
            attempt = self._pick_attempt(source, now)
            if attempt is None:
                break
            self.running[self.submit(attempt.task)] = attempt
        return bool(self.running or self.waiting)

    def _pick_attempt(self, source: Iterator[Task], now: float) -> Attempt | None:
        """An attempt whose pause is over, else a new task; None if there is neither."""
        for attempt in self.waiting:
            if attempt.not_before <= now:
                self.waiting.remove(attempt)
                return attempt
        task = next(source, None)
        return None if task is None else Attempt(task)

    def _collect(self) -> list[Done]:
        if not self.running:
            time.sleep(_POLL_SECONDS)
            return []
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=_POLL_SECONDS)
        found: list[Done] = []
        for handle in ready:
            attempt = self.running.pop(handle)
            try:
                ended, counts, node = self.ray.get(handle)
            except Exception as error:  # noqa: BLE001 - whatever a cluster can say is sorted below
                self._fail(attempt, error)
            else:
                self._busy[node] = self._busy.get(node, 0.0) + ended.seconds
                self.context.report(**counts)
                found.append(ended)
        return found

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        """Count a failure where it belongs; queue the task again, or set it aside for good."""
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
        if again:
            self.waiting.append(attempt)
        elif isinstance(error, StoreError):
            # The client has retried already, and every unit would fail in the same way.
            raise error
        else:
            self.aside.append(attempt)
        what = "it will be retried" if again else "it is set aside"
        logger.warning("unit %s failed (%s); %s", attempt.task.name, summarise_error(error), what)

    def count_workers(self) -> Workforce:
        """Who is at work now, and how busy the CPUs of each node have been so far."""
        seconds = time.monotonic() - self._began
        return Workforce(min(len(self.running), self._cpus), self._cpus, seconds, dict(self._busy))

    def _log_progress(self, done: int, count: int) -> None:
        if time.monotonic() - self._logged > LOG_SECONDS:
            self._logged = time.monotonic()
            logger.info("%d of %d units done; %s", done, count, self.count_workers().words)

    def _raise_if_aside(self, count: int) -> None:
        if not self.aside:
            return
        named = "; ".join(
            f"unit {attempt.task.name} of {attempt.task.source} after "
            f"{attempt.failures + attempt.losses} attempts: {summarise_error(attempt.last)}"
            for attempt in self.aside
        )
        done = count - len(self.aside)
        raise RejectLimitError(
            f"{done} of {count} units are done, {len(self.aside)} were set aside: {named}. "
            "Fix the cause and run the same command again"
        )


def summarise_error(error: BaseException | None) -> str:
    """The message of an error on one line: Ray puts a traceback before a task's, and advice after its own."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) or "::" in lines[0] else lines[0]
