"""The one interface of all executors: tasks in, results out, in whatever order they end.

An executor knows tasks by their names and hands results on. It never sees a document or a token, and nothing
that it decides may change the bytes that come out.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenmill.pipeline.control import Control

    # What is done to a task (`run_unit`, `hash_unit`, `count_part`…), given the job that all tasks share: a
    # function of a module, so that it can be sent anywhere.
    Work = Callable[[Any, Any, Control], Any]


class Task(Protocol):
    """Something to be done on its own."""

    @property
    def name(self) -> str:
        """A name within the job."""

    @property
    def source(self) -> str:
        """What it reads, for words to people."""


@dataclass(frozen=True)
class Watch:
    """The caller's side of a run: `stop` asks for an end, `report` hears counts as work goes on.

    `trusted` returns when a result may count, or raises; only executors of this process ask it.
    """

    report: Callable[..., None]
    stop: threading.Event = field(default_factory=threading.Event)
    trusted: Callable[[], None] = lambda: None


class Done(NamedTuple):
    """A task that ended: its result, and the seconds that it took where it ran."""

    task: Any
    result: Any
    seconds: float


def timed(work: Work, job: Any, task: Task, control: Control) -> Done:
    """Do the work and take its time; what every executor sends to wherever its work is done."""
    started = time.monotonic()
    return Done(task, work(job, task, control), time.monotonic() - started)


class Executor(Protocol):
    """Runs `work` on every task."""

    def run(self, work: Work, job: Any, tasks: Iterable[Any], count: int, watch: Watch) -> Iterator[Done]:
        """Each task as it ends; `count` is how many there are.

        The first error ends the run: tasks under way are stopped and the error is raised. When `watch.stop`
        is set, tasks end at their next block and `InterruptedJobError` is raised.
        """
