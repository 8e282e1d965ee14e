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

from tokenmill.base.errors import InterruptedJobError, RejectLimitError, StoreError, TokenmillError
from tokenmill.jobs.executors.base import Workers
from tokenmill.jobs.executors.budgets import Attempt, Budgets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenmill.jobs.executors.base import Done, RunContext, Task

logger = logging.getLogger("tokenmill.ray")

SPEAK_SECONDS = 30.0
_POLL_SECONDS = 0.2
_LOOK_SECONDS = 1.0


@dataclass
class ClusterRun:
    """`submit` sends a task and gives a handle; the handle's value is `(Done, counts, node)`."""

    ray: Any
    submit: Callable[[Task], Any]
    context: RunContext
    waiting: deque[Attempt] = field(default_factory=deque)
    running: dict[Any, Attempt] = field(default_factory=dict)
    budgets: Budgets = field(default_factory=Budgets)
    _cpus: int = 1
    _looked: float = float("-inf")
    _spoken: float = field(default_factory=time.monotonic)
    _began: float = field(default_factory=time.monotonic)
    _busy: dict[str, float] = field(default_factory=dict)

    def all(self, tasks: Iterable[Task], count: int) -> Iterator[Done]:
        """Submit as many as the cluster has room for, collect as they end."""
        source, done = iter(tasks), 0
        try:
            while True:
                self._fill(source)
                if not self.running and not self.waiting:
                    self.waiting.extend(self.budgets.judge(time.monotonic()))
                    if not self.waiting:
                        break
                for ended in self._collect():
                    done += 1
                    yield ended
                if self.context.stop.is_set():
                    raise InterruptedJobError(
                        "the job was stopped; the same command goes on where it stopped"
                    )
                self._speak(done, count)
        finally:
            for handle in self.running:
                self.ray.cancel(handle, force=False)
        self.context.workers(self.workers())
        logger.info("Cluster: %s", self.workers().words)
        self._name_what_was_set_aside(count)

    def _fill(self, source: Iterator[Task]) -> None:
        """One task for every CPU, and one more for each to find when it is done with that."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            self.context.workers(self.workers())
        later: deque[Attempt] = deque()
        while len(self.running) < 2 * self._cpus:
            attempt = self._next(source, now, later)
            if attempt is None:
                break
            self.running[self.submit(attempt.task)] = attempt
        self.waiting.extendleft(reversed(later))

    def _next(self, source: Iterator[Task], now: float, later: deque[Attempt]) -> Attempt | None:
        while self.waiting:
            attempt = self.waiting.popleft()
            if attempt.not_before <= now:
                return attempt
            later.append(attempt)
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
                self._failed(attempt, error)
            else:
                self.budgets.ended(attempt)
                self._busy[node] = self._busy.get(node, 0.0) + ended.seconds
                self.context.report(**counts)
                found.append(ended)
        return found

    def _failed(self, attempt: Attempt, error: BaseException) -> None:
        """Count a failure where it belongs, and queue the task again if its budgets allow."""
        exceptions = self.ray.exceptions
        if isinstance(error, exceptions.RayTaskError):
            attempt.errors += 1
            error = error.cause if isinstance(error.cause, TokenmillError) else error
        elif isinstance(error, exceptions.WorkerCrashedError | exceptions.OutOfMemoryError):
            attempt.deaths += 1
        else:
            attempt.faults += 1
        attempt.last = error
        again = self.budgets.failed(attempt, time.monotonic())
        if again:
            self.waiting.append(attempt)
        elif isinstance(error, StoreError):
            # The client has been patient already, and every unit would meet the same.
            raise error
        logger.warning(
            "unit %s failed (%s); %s",
            attempt.task.name,
            in_a_line(error),
            "it is tried again" if again else "the others come first",
        )

    def workers(self) -> Workers:
        """Who is at work now, and how much of the time each node's CPUs were so far."""
        seconds = time.monotonic() - self._began
        return Workers(min(len(self.running), self._cpus), self._cpus, seconds, dict(self._busy))

    def _speak(self, done: int, count: int) -> None:
        if time.monotonic() - self._spoken > SPEAK_SECONDS:
            self._spoken = time.monotonic()
            logger.info("%d of %d units done; %s", done, count, self.workers().words)

    def _name_what_was_set_aside(self, count: int) -> None:
        aside = self.budgets.aside
        if not aside:
            return
        named = "; ".join(
            f"unit {attempt.task.name} of {attempt.task.source} after {attempt.tries} attempts: "
            f"{in_a_line(attempt.last)}"
            for attempt in aside
        )
        raise RejectLimitError(
            f"{count - len(aside)} of {count} units are done, {len(aside)} were set aside: {named}. "
            "Mend the cause and run the same command again"
        )


def in_a_line(error: BaseException | None) -> str:
    """The sentence in an error: Ray puts a traceback before the one of a task, and advice after its own."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) or "::" in lines[0] else lines[0]
