"""One dataset job of one process: planned once, then led here or waited for, then published."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.base.console import lines
from tokenmill.base.durable import digest, read_version, sweep_leftovers
from tokenmill.datasets.formats.format import list_formats
from tokenmill.datasets.ledger.duplicates import DUPLICATES
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, load_manifest
from tokenmill.datasets.ledger.plan import check_resume, load_plan, make_plan, save_plan
from tokenmill.datasets.ledger.receipt import RECEIPTS, SHARDS
from tokenmill.datasets.ledger.removal import REMOVED
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.store.remote import COPY, save_copy
from tokenmill.errors import ConfigError, RejectLimitError, ResumeError
from tokenmill.pipeline.executors.choose import read_budget
from tokenmill.pipeline.leading import lead
from tokenmill.pipeline.mirror import Mirror
from tokenmill.pipeline.output_faults import explain_faults
from tokenmill.pipeline.ranks import lead_or_wait
from tokenmill.sources import cut_ranges
from tokenmill.tokenizer.files.kinds import copy_files
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.datasets.ledger.account import Account
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Plan
    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.pipeline.executors.base import Executor
    from tokenmill.pipeline.job import Job
    from tokenmill.sources import InputFile

logger = logging.getLogger("tokenmill.prepare")
# What a job writes in any format; --fresh removes these and what the formats put beside them, the manifest
# first, and nothing else.
OURS = (MANIFEST, PLAN, RECEIPTS, SHARDS, DUPLICATES, REMOVED, COPY)


# The most inputs that the leader's sign of life names; it is written every second.
MOST_NAMED = 100


class Run:
    """A job with its inputs and the executor of its units. Nothing is written before it leads."""

    def __init__(self, job: Job, inputs: Sequence[InputFile], executor: Executor) -> None:
        """Nothing is read yet; `plan` opens the inputs."""
        self.job = job
        self.inputs = inputs
        self.executor = executor
        self.threads, self.memory_budget = read_budget(job.config.execution)
        self.state: Literal["planned", "waiting", "leading", "published"] = "planned"
        self.seconds = 0.0
        self._plan: Plan | None = None
        self._planned_from: tuple[int, ...] | None = None
        self._displaces = False  # the plan takes the place of one of which nothing was done

    def plan(self) -> Plan:
        """The plan of an earlier run with what is new; raises `ResumeError` if that run was another job.

        It is made once, and again only if another process has published its own since, or has begun with
        the plan that ours would displace.
        """
        published = read_version(self.job.root / PLAN)
        stale = published != self._planned_from or (self._displaces and self._is_begun())
        if self._plan is None or stale:
            self._plan, self._planned_from = self._make_plan(), published
        return self._plan

    def _make_plan(self) -> Plan:
        job, output = self.job, self.job.config.output
        previous = load_plan(job.root)
        self._displaces = False
        if previous is not None:
            try:
                check_resume(previous, job.values, self.inputs)
            except ResumeError:
                if self._is_begun():
                    raise
                previous, self._displaces = None, True
        elif (job.root / MANIFEST).exists():
            raise ResumeError(
                f"{job.root} holds a dataset without a plan (converted, or copied in part), which cannot be "
                "added to; use another --output, or --fresh to start over"
            )
        return make_plan(
            job.target,
            job.values,
            self.inputs,
            cut_ranges,
            unit_bytes=output.unit_bytes,
            num_shards=output.num_shards,
            previous=previous,
        )

    def _is_begun(self) -> bool:
        """Whether something of the published plan was done, or may be: other settings are then an error.

        A first try that ended at a bad record has done nothing. Parts, and processes that share a store,
        show no sign of work on a plan, so theirs always stands.
        """
        root = self.job.root
        if self.job.remote is not None or self.job.config.execution.unit_range is not None:
            return True
        return (root / MANIFEST).exists() or any((root / RECEIPTS).glob("*"))

    def publish_plan(self) -> Plan:
        """Every process of the job sees this plan before a unit of it is done."""
        root = self.job.root
        root.mkdir(parents=True, exist_ok=True)
        plan = self.plan()
        if self._displaces:
            self.clear()
            self._displaces = False
        self._keep_tokenizer()
        save_plan(root, plan)
        self._planned_from = read_version(root / PLAN)
        if self.job.remote is not None:
            self.job.remote.publish_plan(root)
        return plan

    def _keep_tokenizer(self) -> None:
        """Copy the tokenizer into the dataset, which can then be decoded wherever it is."""
        encoder = self.job.encoder
        if isinstance(encoder, Tokenizer):
            save_copy(self.job.root, copy_files(encoder.recipe), self.job.remote)

    def find_manifest(self) -> Manifest | None:
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
        self.check_limit(manifest)
        return manifest

    def check_limit(self, manifest: Manifest) -> None:
        """Raise `RejectLimitError` if more records were left out than `max_errors` allows."""
        limit = self.job.config.source.max_errors
        rejected = manifest.account.rejected
        if limit is not None and rejected.total() > limit:
            counts = ", ".join(f"{reason} {count}" for reason, count in rejected.most_common())
            first = manifest.rejects[0].place if manifest.rejects else "?"
            raise RejectLimitError(
                f"the dataset is finished, but {rejected.total()} records were left out ({counts}), "
                f"more than max_errors {limit}; the first is {first}. The manifest lists the first places"
            )

    def clear(self) -> None:
        """Remove what an earlier job left in the output directory."""
        import shutil  # here, since it brings every kind of compression along

        ours = [*OURS, *{name for known in list_formats() for name in known.beside}]
        with explain_faults(self.job.root):
            for path in (self.job.root / name for name in ours):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        if self.job.remote is not None:
            self.job.remote.clear(ours)

    def execute(self) -> Outcome:
        """Do the job, or wait for the rank that does it, or open what is done; and say how it went."""
        job, execution = self.job, self.job.config.execution
        if execution.unit_range is not None:
            raise ConfigError(
                "unit_range does a part of a job: use the command, or tokenmill.pipeline.unit_range"
            )
        started = time.monotonic()
        with explain_faults(job.root):
            dataset = self._open()
            if dataset is not None:
                # A run that was killed at its very end may have left its report half-written.
                with suppress(OSError):
                    sweep_leftovers(job.root)
                logger.info("Nothing to do: %s is complete", job.location)
                return Outcome(dataset, time.monotonic() - started, worked=False)
            self.state = "waiting"
            dataset = lead_or_wait(
                job.root,
                job.values | {"inputs": name_inputs([file.url for file in self.inputs])},
                execution,
                find=self._open,
                lead=self._lead,
                mirror=Mirror(job.remote) if job.remote is not None else None,
            )
        seconds = self.seconds or time.monotonic() - started
        split = job.config.source.split or (job.split.part if job.split is not None else "train")
        outcome = Outcome(dataset, seconds, worked=True, cores=self.threads)
        lines.log_split_end(split, dataset.manifest.account.documents_read, seconds, outcome.rating)
        _warn_if_empty(dataset.manifest.account)
        return outcome

    def _open(self) -> Dataset | None:
        if self.find_manifest() is None:
            return None
        self.state = "published"
        return open_dataset(self.job.location)

    def _lead(self) -> Dataset:
        self.state = "leading"
        self.seconds = lead(self).seconds
        self.state = "published"
        if self.job.config.output.report:
            from tokenmill.report.report import report_if_possible

            report_if_possible(self.job.location, self.job.encoder)
        return open_dataset(self.job.location)


def _warn_if_empty(account: Account) -> None:
    if not account.documents_read:
        logger.warning("The inputs hold no document: the dataset is empty")
    elif not account.documents_written:
        reasons = ", ".join(
            f"{reason} {count:,}" for reason, count in account.documents_dropped.items() if count
        )
        logger.warning("None of %s documents is left: dropped by %s", f"{account.documents_read:,}", reasons)


def name_inputs(urls: list[str]) -> list[str]:
    """The inputs as ranks compare them: all, or of very many the first, the last and a hash of all."""
    if len(urls) <= MOST_NAMED:
        return urls
    between = f"{len(urls) - 2} more, with the hash of all {digest(urls)[:16]}"
    return [urls[0], between, urls[-1]]


@dataclass(frozen=True)
class Outcome:
    """What a call did: the dataset, the seconds it took, and whether there was anything to do."""

    dataset: Dataset
    seconds: float
    worked: bool
    cores: int = 1

    @property
    def rating(self) -> str | None:
        """A word for the job's speed; None if it was too short to say."""
        return lines.rate(self.dataset.manifest.account.text_bytes, self.seconds, self.cores)

    def summarise(self) -> dict[str, Any]:
        """Everything that is said at the end of a job, ready for JSON."""
        manifest = self.dataset.manifest
        examples = manifest.account.documents_read
        rate = examples / self.seconds if self.seconds > 0 else 0.0
        return {
            "path": self.dataset.address,
            "documents": manifest.documents,
            "tokens": manifest.tokens,
            "rows": manifest.rows,
            "shards": len(manifest.shards),
            "examples": examples,
            "seconds": round(self.seconds, 3),
            "examples_per_second": round(rate, 1),
            "rating": self.rating,
            "worked": self.worked,
            "content_hash": manifest.content_hash,
            "account": manifest.account.to_json(),
        }
