"""The one interface of all executors: tasks in, results out, in whatever order they end.

An executor knows tasks by their names and hands results on. It never sees a document or a token, and nothing
that it decides may change the bytes that come out.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

from tokenmill.pipeline.control import Batching, do_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenmill.pipeline.control import Control
    from tokenmill.settings.schema import ExecutionConfig

    # What is done to a task (`run_unit`, `hash_unit`, `count_part`…), given the job that all tasks share: a
    # function of a module, so that it can be sent anywhere.
    Work = Callable[[Any, Any, Control], Any]


class Task(Protocol):
    """A piece of work that can be done on its own."""

    @property
    def name(self) -> str:
        """A name within the job."""

    @property
    def source(self) -> str:
        """What it reads, for messages."""


@dataclass(frozen=True)
class Workforce:
    """Who works for a run, now and over its `seconds`; `busy` has the seconds in units by node."""

    at_work: int
    cpus: int
    seconds: float
    busy: dict[str, float]

    @property
    def utilisation(self) -> float:
        """The part of the CPUs' time that was spent in units which have ended."""
        offered = self.cpus * self.seconds
        return min(1.0, sum(self.busy.values()) / offered) if offered else 0.0

    @property
    def figures(self) -> dict[str, float]:
        """The same as numbers."""
        shown = {"at_work": self.at_work, "cpus": self.cpus, "nodes": len(self.busy)}
        return shown | {"utilisation": round(self.utilisation, 3)}

    @property
    def words(self) -> str:
        """`"2 of 2 CPUs at work on 2 nodes, 93 % of their time so far"`."""
        nodes = f" on {len(self.busy)} node{'s' * (len(self.busy) != 1)}" if self.busy else ""
        return (
            f"{self.at_work} of {self.cpus} CPUs at work{nodes}, {self.utilisation:.0%} of their time so far"
        )


@dataclass(frozen=True)
class RunContext:
    """What a caller gives a run: how documents are batched, and how to follow and stop it.

    `confirm` returns when a result may count, or raises; only executors in this process call it.
    """

    batching: Batching = field(default_factory=Batching)
    report: Callable[..., None] = do_nothing
    stop: threading.Event = field(default_factory=threading.Event)
    confirm: Callable[[], None] = do_nothing
    workers: Callable[[Workforce], None] = lambda _: None


class Done(NamedTuple):
    """A task that ended: its result, and the seconds that it took where it ran."""

    task: Any
    result: Any
    seconds: float


def time_work(work: Work, job: Any, task: Task, control: Control) -> Done:
    """Do the work and time it; every executor sends this to wherever the work is done."""
    started = time.monotonic()
    return Done(task, work(job, task, control), time.monotonic() - started)


class Executor(Protocol):
    """Runs `work` on every task. Its module has the class under the name `EXECUTOR`."""

    in_process: ClassVar[bool]
    """Whether tasks run in this process: they can ask `confirm`, and share its memory and its disks."""

    @classmethod
    def make(cls, execution: ExecutionConfig) -> Self:
        """An executor as the settings describe it; nothing is started yet."""

    def warm(self) -> None:
        """Begin what a run will need (a connection, processes) while the caller plans; never raises."""

    def run(
        self, work: Work, job: Any, tasks: Iterable[Any], count: int, context: RunContext
    ) -> Iterator[Done]:
        """Each task as it ends; `count` is how many there are.

        The first error ends the run: tasks under way are stopped and the error is raised. When
        `context.stop` is set, tasks end at their next block and `InterruptedJobError` is raised.
        """
