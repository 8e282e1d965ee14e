"""A part of a plan for one of many processes on any scheduler, and the commit that ends the whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.durable import sweep_leftovers
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.store.remote import Remote
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.commit import commit, find_receipts
from tokenmill.pipeline.leading import lead
from tokenmill.pipeline.output_faults import explain_faults
from tokenmill.report.report import report_if_possible
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.pipeline.run import Run


@dataclass(frozen=True)
class UnitRange:
    """Part `number` of `count`, from 0. Every n-th unit, so that a large file is spread over all."""

    number: int
    count: int

    def has(self, ordinal: int) -> bool:
        """Whether a unit belongs to this part."""
        return ordinal % self.count == self.number

    @classmethod
    def parse(cls, text: str) -> UnitRange:
        """`"0/4"` -> the first of four; array jobs of most schedulers count from 0."""
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and int(number) < int(count)):
            raise ConfigError(f"unit_range is {text!r}; expected i/n with i from 0 to n - 1, for example 0/4")
        return cls(int(number), int(count))


@dataclass(frozen=True)
class PartOutcome:
    """How far the whole plan is after this part: `manifest` is there once everything is done."""

    done: int
    units: int
    manifest: Manifest | None


def prepare_part(run: Run, text: str) -> PartOutcome:
    """Do one part of the plan; whoever does the last missing unit publishes the manifest."""
    part, job = UnitRange.parse(text), run.job
    with explain_faults(job.root):
        leader = lead(run, part)
    if leader.manifest is not None and job.config.output.report:
        report_if_possible(job.location, job.encoder)
    return PartOutcome(leader.units - leader.missing, leader.units, leader.manifest)


def commit_directory(directory: str | Path) -> Manifest:
    """Publish the manifest if every unit has its receipt; raises `DatasetError` naming what is missing."""
    remote = Remote.at(str(directory)) if is_remote(directory) else None
    root = remote.work if remote is not None else Path(directory)
    if remote is not None:
        remote.pull(root)
    plan = load_plan(root)
    if plan is None:
        raise DatasetError(f"{directory} has no {PLAN}; give the output directory of a prepare job")
    with explain_faults(root):
        manifest = commit(root, plan, find_receipts(root, plan, remote), remote)
    report_if_possible(directory)
    sweep_leftovers(root)  # of a commit that was killed
    return manifest
