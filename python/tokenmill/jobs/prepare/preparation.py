"""One dataset job of one process: what is to be done, whether it is done, and doing it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.console.progress import Progress
from tokenmill.base.durable import sweep_leftovers
from tokenmill.base.errors import RejectLimitError, ResumeError
from tokenmill.datasets.ledger.duplicates import DUPLICATES, Duplicates, hashes_path
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, load_manifest
from tokenmill.datasets.ledger.plan import check_resume, load_plan, make_plan, save_plan
from tokenmill.datasets.ledger.receipt import RECEIPTS, SHARDS
from tokenmill.datasets.shards.format import every_format
from tokenmill.jobs.executors.base import Watch
from tokenmill.jobs.prepare.signals import stopping
from tokenmill.jobs.units.commit import commit, find_receipts, pending
from tokenmill.jobs.units.events import Recorder
from tokenmill.jobs.units.hashing import hash_unit
from tokenmill.jobs.units.unit import Task, run_unit, task_of
from tokenmill.sources import ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Plan, Unit
    from tokenmill.datasets.ledger.receipt import Receipt
    from tokenmill.jobs.executors.base import Executor, Workers
    from tokenmill.jobs.prepare.share import Share
    from tokenmill.jobs.units.job import Job
    from tokenmill.sources import InputFile

# What a job writes in any format; --fresh removes these and what the formats put beside them, the manifest
# first, and nothing else.
OURS = (MANIFEST, PLAN, RECEIPTS, SHARDS, DUPLICATES)


@dataclass(frozen=True)
class Preparation:
    """A job with its inputs. Nothing is written before `lead`."""

    job: Job
    inputs: Sequence[InputFile]
    executor: Executor
    threads: int
    memory_budget: int
    # Returns when the engine may be trusted with these documents, or raises (jobs/prepare/trust.py).
    trusted: Callable[[], None] = lambda: None

    def plan(self) -> Plan:
        """The plan of an earlier run with what is new; raises `ResumeError` if that run was another job."""
        job, output = self.job, self.job.config.output
        previous = load_plan(job.root)
        if previous is not None:
            check_resume(previous, job.values, self.inputs)
        elif (job.root / MANIFEST).exists():
            raise ResumeError(
                f"{job.root} holds a dataset without a plan (converted, or copied in part), which cannot be "
                "added to; use another --output, or --fresh to start over"
            )
        return make_plan(
            job.target,
            job.values,
            self.inputs,
            ranges,
            unit_bytes=output.unit_bytes,
            num_shards=output.num_shards,
            previous=previous,
        )

    def finished(self) -> Manifest | None:
        """The manifest, if it is published and covers exactly today's plan.

        Raises if it is over `max_errors`, so that a rank that waited says the same as the one that prepared.
        """
        plan = self.plan()
        if not (self.job.root / MANIFEST).exists():
            return None
        manifest = load_manifest(self.job.root)
        planned = [unit.id for unit in plan.units]
        if [shard.unit for shard in manifest.shards] != planned:
            return None
        self._check_limit(manifest)
        return manifest

    def done(self, plan: Plan) -> dict[int, Receipt]:
        """The receipts that are there, by the unit's ordinal."""
        return find_receipts(self.job.root, plan, self.job.remote)

    def clear(self) -> None:
        """Remove what an earlier job left in the output directory."""
        import shutil  # here, since it brings every kind of compression along

        ours = [*OURS, *{name for known in every_format() for name in known.beside}]
        for name in ours:
            path = self.job.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if self.job.remote is not None:
            self.job.remote.clear(ours)

    def lead(self) -> Manifest:
        """Do every unit that has no receipt, then publish the manifest."""
        root = self.job.root
        plan = self._publish_plan()
        for place in (root, root / SHARDS, root / RECEIPTS, root / DUPLICATES):
            sweep_leftovers(place)
        receipts = self.done(plan)
        todo = pending(plan, receipts)
        with self._recorder(plan, receipts) as recorder:
            recorder.start(resumed=bool(receipts), threads=self.threads, memory=self.memory_budget)
            receipts |= _Run(self, plan, recorder, receipts).units(todo)
            recorder.phase("commit")
            manifest = commit(root, plan, receipts, self.job.remote)
        self._check_limit(manifest)
        return manifest

    def lead_share(self, share: Share) -> Manifest | None:
        """Do this process's share of the units; publish the manifest if it was the last one that was missing.

        Many processes may do so at once: the plan is the same for all of them, a unit belongs to one, and
        leftovers are not swept away, for they may be another's work.
        """
        root = self.job.root
        plan = self._publish_plan()
        receipts = self.done(plan)
        todo = [unit for unit in pending(plan, receipts) if share.has(unit.ordinal)]
        with self._recorder(plan, receipts) as recorder:
            recorder.start(resumed=bool(receipts), threads=self.threads, memory=self.memory_budget)
            _Run(self, plan, recorder, receipts).units(todo)
            receipts = self.done(plan)
            if pending(plan, receipts):
                return None
            manifest = commit(root, plan, receipts, self.job.remote)
        self._check_limit(manifest)
        return manifest

    def _publish_plan(self) -> Plan:
        """Every process of the job sees this plan before a unit of it is done."""
        root = self.job.root
        root.mkdir(parents=True, exist_ok=True)
        plan = self.plan()
        save_plan(root, plan)
        if self.job.remote is not None:
            self.job.remote.publish_plan(root)
        return plan

    def _recorder(self, plan: Plan, receipts: dict[int, Receipt]) -> Recorder:
        return Recorder(
            self.job.root,
            bytes_total=plan.foreseen_bytes,
            units_total=len(plan.units),
            units_done=len(receipts),
        )

    def _check_limit(self, manifest: Manifest) -> None:
        limit = self.job.config.source.max_errors
        rejected = manifest.account.rejected
        if limit is not None and rejected.total() > limit:
            counts = ", ".join(f"{reason} {count}" for reason, count in rejected.most_common())
            first = manifest.rejects[0].place if manifest.rejects else "?"
            raise RejectLimitError(
                f"the dataset is finished, but {rejected.total()} records were left out ({counts}), "
                f"more than max_errors {limit}; the first is {first}. The manifest lists the first places"
            )


class _Run:
    """The units of one run, with everybody who listens."""

    def __init__(
        self, preparation: Preparation, plan: Plan, recorder: Recorder, done: dict[int, Receipt]
    ) -> None:
        self._preparation = preparation
        self._job = preparation.job
        self._plan = plan
        self._recorder = recorder
        self._stop = threading.Event()
        resumed = sum(unit.bytes for unit in plan.units if unit.ordinal in done)
        show = self._job.config.execution.show_progress
        total = plan.foreseen_bytes
        self._progress = Progress("Tokenizing", total, show=show, resumed=resumed if total else 0)

    def units(self, todo: list[Unit]) -> dict[int, Receipt]:
        """The receipts of the units done now."""
        made: dict[int, Receipt] = {}
        with stopping(self._stop), self._progress:
            tasks = self._tasks(todo)
            self._recorder.phase("tokenizing")
            watch = Watch(self._count, self._stop, self._preparation.trusted, self._workers)
            for done in self._preparation.executor.run(run_unit, self._job, tasks, len(todo), watch):
                made[done.task.unit.ordinal] = done.result
                self._record(*done)
        return made

    def _tasks(self, todo: list[Unit]) -> Iterator[Task]:
        duplicates = self._find_duplicates() if self._job.config.filter.deduplicate and todo else None
        inputs = self._plan.inputs
        return (task_of(unit, inputs, duplicates.of(unit.name) if duplicates else None) for unit in todo)

    def _find_duplicates(self) -> Duplicates:
        """Hash what is not hashed yet, then compare all; see docs/format.md for the rule."""
        self._recorder.phase("hashing")
        root, units = self._job.root, self._plan.units
        unhashed = [unit for unit in units if not hashes_path(root, unit.name).exists()]
        tasks = (task_of(unit, self._plan.inputs) for unit in unhashed)
        watch = Watch(_nothing, self._stop)
        for _ in self._preparation.executor.run(hash_unit, self._job, tasks, len(unhashed), watch):
            pass
        return Duplicates(root, [unit.name for unit in units], self._preparation.memory_budget)

    def _count(self, **amounts: int) -> None:
        self._recorder.count(**amounts)
        self._progress.advance(
            amounts["bytes"], documents=amounts.get("documents", 0), tokens=amounts.get("tokens", 0)
        )

    def _workers(self, workers: Workers) -> None:
        self._recorder.workers(workers.figures)
        self._progress.note = workers.words

    def _record(self, task: Task, receipt: Receipt, seconds: float) -> None:
        self._recorder.count(units_done=1)
        self._recorder.event(
            "unit",
            unit=task.unit.ordinal,
            unit_id=task.unit.id,
            source=task.inputs[0].url,
            seconds=round(seconds, 3),
            documents=receipt.account.documents_written,
            tokens=receipt.account.tokens_stored,
            bytes=receipt.account.input_bytes,
        )


def _nothing(**_amounts: Any) -> None:
    """The first pass is not counted: its bytes are read again."""
