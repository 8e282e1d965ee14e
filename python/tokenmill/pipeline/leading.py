"""What the leader does: the plan published, every unit that has no receipt done, the manifest published."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.base.console.progress import Progress
from tokenmill.base.durable import sweep_leftovers
from tokenmill.datasets.ledger.receipt import RECEIPTS, SHARDS
from tokenmill.datasets.ledger.selection import DUPLICATES, Duplicates, has_hashes
from tokenmill.datasets.store.remote import COPY
from tokenmill.pipeline.commit import commit, find_pending, find_receipts
from tokenmill.pipeline.control import do_nothing
from tokenmill.pipeline.executors.base import RunContext
from tokenmill.pipeline.hashing import hash_unit
from tokenmill.pipeline.parity_gate import DifferentIdsError, compare_engines
from tokenmill.pipeline.readiness import get_ready
from tokenmill.pipeline.recorder import Recorder
from tokenmill.pipeline.signals import stop_on_signals
from tokenmill.pipeline.unit import UnitTask, make_task, run_unit
from tokenmill.sources.first_documents import read_first_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Unit
    from tokenmill.datasets.ledger.receipt import Receipt
    from tokenmill.pipeline.control import Batching
    from tokenmill.pipeline.job import Job
    from tokenmill.pipeline.run import Run
    from tokenmill.pipeline.unit_range import UnitRange


def lead(run: Run, part: UnitRange | None = None) -> Leader:
    """Do what is left of a job, or of a part of it, with the engine that passes the comparison."""
    first = read_first_documents(run.inputs, run.job.config.source)
    batching = get_ready(run, first)
    # Last, so that the comparison runs beside the first units and not beside all of the above.
    gate = compare_engines(run, first.texts)
    leader = Leader(run, gate.job, batching, gate.wait)
    try:
        leader.finish(part)
    except DifferentIdsError as found:
        leader = Leader(run, replace(run.job, encoder=found.tokenizer), batching)
        leader.finish(part)
    return leader


class Leader:
    """The units of one run, and what reports on them."""

    def __init__(
        self, run: Run, job: Job, batching: Batching, confirm: Callable[[], None] = do_nothing
    ) -> None:
        """Publish the plan and see what of it is done; `confirm` returns when a unit may count, or raises."""
        self.manifest: Manifest | None = None
        self.seconds = 0.0
        self._run = run
        self._job = job
        self._batching = batching
        self._confirm = confirm
        self._stop = threading.Event()
        self._plan = run.publish_plan()
        self._receipts = self._find_receipts()
        resumed = sum(unit.bytes for unit in self._plan.units if unit.ordinal in self._receipts)
        total = self._plan.foreseen_bytes
        show = job.config.execution.show_progress
        self._progress = Progress("Tokenizing", total, show=show, resumed=resumed if total else 0)
        self._recorder = Recorder(
            job.root, bytes_total=total, units_total=len(self._plan.units), units_done=len(self._receipts)
        )

    def finish(self, part: UnitRange | None = None) -> None:
        """Do every unit that has no receipt, or those of a part; publish the manifest when none is missing.

        Many processes may do parts at once: the plan is the same for all of them and a unit belongs to one.
        """
        started, todo = time.monotonic(), find_pending(self._plan, self._receipts)
        if part is None:
            self._sweep()
        else:
            todo = [unit for unit in todo if part.has(unit.ordinal)]
        with self._recorder:
            self._receipts |= self._run_units(todo)
            if part is not None:
                self._receipts = self._find_receipts()
            if part is None or not self.missing:
                self._recorder.enter_phase("commit")
                self.manifest = commit(self._job.root, self._plan, self._receipts, self._job.remote)
        # The warm-up before and the report after are not what a user times.
        self.seconds = time.monotonic() - started
        if self.manifest is not None:
            self._run.check_limit(self.manifest)

    def _sweep(self) -> None:
        """Delete what dead processes left half-written; not among parts, where it could be another's work."""
        root = self._job.root
        for place in (root, root / SHARDS, root / RECEIPTS, root / DUPLICATES, root / COPY):
            sweep_leftovers(place)

    @property
    def units(self) -> int:
        """How many units the plan has."""
        return len(self._plan.units)

    @property
    def missing(self) -> int:
        """How many of them had no receipt at the last look."""
        return len(find_pending(self._plan, self._receipts))

    def _find_receipts(self) -> dict[int, Receipt]:
        return find_receipts(self._job.root, self._plan, self._job.remote)

    def _run_units(self, todo: list[Unit]) -> dict[int, Receipt]:
        """The receipts of the units done now."""
        run, made = self._run, {}
        self._recorder.write_start(
            resumed=bool(self._receipts), threads=run.threads, memory=run.memory_budget
        )
        with stop_on_signals(self._stop), self._recorder.show(self._progress):
            tasks = self._make_tasks(todo)
            self._recorder.enter_phase("tokenizing")
            context = RunContext(
                self._batching, self._recorder.count, self._stop, self._confirm, self._recorder.show_workers
            )
            for done in run.executor.run(run_unit, self._job, tasks, len(todo), context):
                made[done.task.unit.ordinal] = done.result
                self._record(*done)
        return made

    def _make_tasks(self, todo: list[Unit]) -> Iterator[UnitTask]:
        duplicates = self._find_duplicates() if self._job.config.filter.deduplicate and todo else None
        inputs = self._plan.inputs
        return (
            make_task(unit, inputs, duplicates.find_in(unit.name) if duplicates else None) for unit in todo
        )

    def _find_duplicates(self) -> Duplicates:
        """Hash what is not hashed yet, then compare all; see docs/format.md for the rule."""
        self._recorder.enter_phase("hashing")
        root, units = self._job.root, self._plan.units
        unhashed = [unit for unit in units if not has_hashes(root, unit.name)]
        tasks = (make_task(unit, self._plan.inputs) for unit in unhashed)
        # Not reported: these bytes are read again.
        context = RunContext(stop=self._stop)
        for _ in self._run.executor.run(hash_unit, self._job, tasks, len(unhashed), context):
            pass
        return Duplicates(root, [unit.name for unit in units], self._run.memory_budget)

    def _record(self, task: UnitTask, receipt: Receipt, seconds: float) -> None:
        self._recorder.count(units_done=1)
        self._recorder.write_event(
            "unit",
            unit=task.unit.ordinal,
            unit_id=task.unit.id,
            source=task.source,
            seconds=round(seconds, 3),
            documents=receipt.account.documents_written,
            tokens=receipt.account.tokens_stored,
            bytes=receipt.account.input_bytes,
        )
