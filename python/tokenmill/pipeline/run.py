"""Prepare one dataset: plan it, process its units or wait for the leading rank, publish it."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tokenmill.base import words
from tokenmill.base.durable import publish_bytes
from tokenmill.base.machine import GB, compute_batch_size, measure
from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.formats.format import list_formats
from tokenmill.datasets.layout import VIEWS
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, Manifest, load_manifest
from tokenmill.datasets.ledger.plan import Plan, Unit, check_resume, load_plan, make_plan, save_plan
from tokenmill.datasets.ledger.receipt import RECEIPTS, SHARDS, Receipt
from tokenmill.datasets.ledger.selection import DUPLICATES, REMOVED, Duplicates, has_hashes
from tokenmill.datasets.remote import COPY, save_copy
from tokenmill.errors import ConfigError, RejectLimitError, ResumeError
from tokenmill.pipeline.commit import commit, find_pending, find_receipts, sweep_dataset
from tokenmill.pipeline.executors import Control, LocalExecutor, choose_executor
from tokenmill.pipeline.job import Job
from tokenmill.pipeline.output import Progress, explain_faults, read_budget
from tokenmill.pipeline.ranks import lead_or_wait
from tokenmill.pipeline.unit import UnitTask, hash_unit, make_task, run_unit
from tokenmill.sources import InputFile, cut_ranges
from tokenmill.sources.read import FirstDocuments, count_rows, read_first_documents
from tokenmill.tokenizer.engines.huggingface import limit_threads
from tokenmill.tokenizer.files.kinds import copy_files
from tokenmill.tokenizer.parity import SAMPLE_BYTES, check_parity, locate_memory, take_sample
from tokenmill.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger("tokenmill.prepare")
# Files of a job in any format, manifest first. --fresh removes these and the extra files of formats.
OURS = (MANIFEST, PLAN, RECEIPTS, SHARDS, DUPLICATES, REMOVED, COPY, VIEWS)
WARM_UP_DOCUMENTS = 64
# Hugging Face is about 200 times slower than native, so comparing 1/SHARE of the input adds a tenth to the
# time of a job. Small jobs compare `SMALL_SAMPLE` bytes.
SHARE = 2048
SMALL_SAMPLE = 1 << 15
# The minimum bytes of text per second and core of each rating, independent of document length.
RATINGS = ((20e6, "very fast"), (5e6, "fast"), (1e6, "normal"), (0, "slow"))
SHORTEST_RATED = 10.0  # seconds; shorter jobs are mostly start-up
# Users search their logs for the wording of these lines.
PARALLELISM = {
    "native": "native_rust_threads",
    "huggingface": "fast_tokenizer_internal",
    "python": "python_multiprocessing",
}


class Run:
    """A job with its inputs. Nothing is written before `lead`."""

    def __init__(self, job: Job, inputs: Sequence[InputFile], choices: Sequence[str] = ()) -> None:
        self.job = job
        self.inputs = inputs
        self.choices = choices  # what was detected and chosen, in words
        self.executor = choose_executor(job.config.execution)
        self.threads, self.memory_budget = read_budget(job.config.execution)
        self.seconds = 0.0  # of the units, without the warm-up before and the report after; 0 if none ran
        self._displaces = False  # the plan replaces one without finished units

    def plan(self) -> Plan:
        """Return the plan, an extension of that of an earlier run. Raise `ResumeError` if that differs."""
        job, output, previous = self.job, self.job.config.output, load_plan(self.job.root)
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
                f"{job.root} has a dataset without a plan (converted, or copied in part), which cannot be "
                "added to; use another `output`, or `fresh=True` to start over"
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

    def find_receipts(self) -> dict[int, Receipt]:
        """Return the receipts of the finished units, by ordinal."""
        return find_receipts(self.job.root, self.plan(), self.job.remote)

    def _is_begun(self) -> bool:
        """Return True if units of the published plan may be done, so that other settings are an error."""
        root, unit_range = self.job.root, self.job.config.execution.unit_range
        shared = self.job.remote is not None or unit_range is not None  # other processes may work on it
        return shared or (root / MANIFEST).exists() or any((root / RECEIPTS).glob("*"))

    def execute(self) -> Dataset:
        """Lead the job, or wait for the rank that leads it. Return the dataset."""
        job, execution = self.job, self.job.config.execution
        if execution.unit_range is not None:
            raise ConfigError("unit_range does a part of a job: use the command `tokenmill prepare`")
        with explain_faults(job.root):
            dataset = self.open()
            if dataset is None:
                dataset = lead_or_wait(job.root, job.location, execution, find=self.open, lead=self._lead)
            else:
                # A killed run may have left temporary files of its report.
                with suppress(OSError):
                    sweep_dataset(job.root)
        if self.seconds:
            self._log_end(dataset)
        else:
            logger.info("Nothing to do: %s is complete", job.location)
        return dataset

    def _lead(self) -> Dataset:
        self.lead()
        return open_dataset(self.job.location)

    def _log_end(self, dataset: Dataset) -> None:
        account, seconds = dataset.manifest.account, self.seconds
        part = self.job.split.part if self.job.split is not None else "train"
        split, examples = self.job.config.source.split or part, account.documents_read
        logger.info("Completed tokenizing split '%s' in %.2f seconds", split, seconds)
        logger.info("Processed %d examples at %.1f examples/sec", examples, examples / seconds)
        if seconds >= SHORTEST_RATED:
            rate = account.text_bytes / seconds / self.threads
            word = next(word for least, word in RATINGS if rate >= least)
            logger.info("Rating: %s (%s/s per core)", word, words.size(rate))
        for what, counts in list_left_out(dataset).items():
            logger.info("%s: %s", what.capitalize(), counts)
        if not account.documents_written:
            logger.warning("The dataset is empty: %s documents were read", f"{examples:,}")

    def open(self) -> Dataset | None:
        """Return the dataset if its manifest matches the current plan, otherwise None.

        Raise `RejectLimitError` above `max_errors`, so that waiting ranks fail like the leader.
        """
        if not (self.job.root / MANIFEST).exists():
            return None
        manifest = load_manifest(self.job.root)
        plan = self.plan()
        if [shard.unit for shard in manifest.shards] != [unit.id for unit in plan.units]:
            return None
        if manifest.packing != plan.target.packing:  # another default view
            return None
        self._check_limit(manifest)
        return open_dataset(self.job.location)

    def lead(self) -> Manifest | None:
        """Process the remaining units, or those of `unit_range`. Publish the manifest if all are done.

        Return the manifest, or None if other parts have units left.
        """
        with explain_faults(self.job.root):
            first = read_first_documents(self.inputs, self.job.config.source)
            self.compare_engines(first.texts)
            manifest = self._finish(self._get_ready(first))
        if manifest is not None:
            self._check_limit(manifest)
            if self.job.config.output.report:
                from tokenmill.report.dataset import report_if_possible

                report_if_possible(self.job.location, self.job.encoder)
        return manifest

    def compare_engines(self, texts: list[str]) -> None:
        """Compare native with Hugging Face on a sample. Use the other engine if the ids differ."""
        job, encoder = self.job, self.job.encoder
        own = not isinstance(encoder, Tokenizer) or not encoder.engine.native
        if own or job.config.source.ids_field:
            why = "the tokenizer's own code runs" if own else "the records contain ids"
            logger.info("Parity check skipped: %s, there is nothing to compare", why)
            return
        if not (job.config.tokenizer.parity_check and texts):
            why = "no document can be read before the job reads it" if not texts else "parity_check is false"
            logger.warning("Parity check skipped: %s, so native is not compared with Hugging Face", why)
            return
        size = sum(file.size for file in self.inputs) // SHARE
        sample = take_sample(texts, max(SMALL_SAMPLE, min(SAMPLE_BYTES, size)))
        memory = locate_memory(encoder, sample, job.lenient_special)
        if memory.exists():
            text = "Parity: native and Hugging Face gave the same ids on these %d documents before"
            logger.info(text, len(sample))
            return
        with limit_threads(self.threads):
            verdict = check_parity(encoder, sample, special=job.lenient_special, threads=self.threads)
        if verdict.skipped:
            logger.warning("Parity check skipped: %s", verdict.skipped)
        elif not verdict.difference:
            with suppress(OSError):  # without a writable cache the next job compares again
                publish_bytes(memory, b"")
        self.job = replace(job, encoder=verdict.tokenizer)

    def _get_ready(self, first: FirstDocuments) -> int:
        """Warm up, log the settings of the run, and return the number of documents in a batch."""
        job, execution, packing = self.job, self.job.config.execution, self.job.config.packing.mode
        strategy = job.encoder.strategy.name
        if isinstance(self.executor, LocalExecutor) and first.texts and strategy != "native":
            logger.info("🔥 Warming up tokenizer...")
            sample = first.texts[:WARM_UP_DOCUMENTS]
            with limit_threads(self.threads):
                job.encoder.encode_batch(sample, special=job.lenient_special, threads=self.threads)
            logger.info("✅ Tokenizer warmed up")
        machine = measure()
        automatic = compute_batch_size(first.average_bytes, self.memory_budget, self.threads)
        size = execution.batch_size or automatic
        processes = execution.num_proc or machine.slow_processes
        workers, kind = (processes, "processes") if strategy == "python" else (self.threads, "threads")
        logger.info("📊 Dataset loading settings:")
        logger.info("  - Parallel %s: %d", kind, workers)
        logger.info("  - Batch size: %d", size)
        logger.info("  - Writer batch size: %d", size)
        number = {"python": f"num_proc={processes}, ", "native": f"threads={self.threads}, "}
        parallelism = f"{number.get(strategy, '')}parallelism={PARALLELISM[strategy]}"
        logger.info("Performance configuration: batch_size=%d, %s", size, parallelism)
        available, budget = machine.memory.available / GB, words.size(self.memory_budget)
        logger.info("Memory: %.1fGB available, up to %s of text and tokens in flight", available, budget)
        logger.info("🔤 Tokenizing dataset...")
        how = "sequence concatenation (packing mode)" if packing == "concat" else f"packing mode {packing}"
        logger.info("📦 Using %s", how)
        examples = count_rows(self.inputs) if first.records is None else first.records
        count = f" with {examples} examples" if examples is not None else ""
        logger.info("Tokenizing split '%s'%s", job.config.source.split or "train", count)
        logger.info("⚡ Tokenizing with %d %s...", workers, kind)
        logger.info("  Batch tokenizing with %d %s, batch_size=%d...", workers, kind, size)
        return size

    def _finish(self, batch_size: int) -> Manifest | None:
        """Process the units that are left. Processes that run parts share the plan."""
        job, started = self.job, time.monotonic()
        plan = self.publish_plan()
        receipts = find_receipts(job.root, plan, job.remote)
        todo = find_pending(plan, receipts)
        unit_range = job.config.execution.unit_range
        if unit_range is None:
            sweep_dataset(job.root)
        else:
            # Every n-th unit, so that a large file is spread over all parts.
            part, parts = parse_unit_range(unit_range)
            todo = [unit for unit in todo if unit.ordinal % parts == part]
            if len(plan.units) < parts:
                found = f"{parts} tasks, but only {words.amount(len(plan.units), 'unit')}"
                logger.warning("%s: lower `unit_bytes`, or start fewer tasks", found)
        # The number of bytes to read is unknown for compressed inputs.
        total = plan.bytes if all(file.compression is None for file in plan.inputs) else None
        progress = Progress(
            job.root,
            show=job.config.execution.show_progress,
            bytes=sum(unit.bytes for unit in plan.units if unit.ordinal in receipts) if total else 0,
            bytes_total=total,
            units_done=len(receipts),
            units_total=len(plan.units),
        )
        control = Control(batch_size=batch_size, report=progress.count)
        with progress:
            with stop_on_signals(control.stop):
                tasks = self._make_tasks(plan, todo, control)
                with progress.stage("Tokenizing", total):
                    for task, receipt in self.executor.run(run_unit, job, tasks, len(todo), control):
                        receipts[task.unit.ordinal] = receipt
                        progress.count(units_done=1)
            if unit_range is not None:
                receipts = find_receipts(job.root, plan, job.remote)
                if find_pending(plan, receipts):
                    return None
            manifest = commit(job.root, plan, receipts, job.remote)
        self.seconds = time.monotonic() - started
        return manifest

    def publish_plan(self) -> Plan:
        """Publish the plan and a copy of the tokenizer before a unit is done."""
        root, encoder = self.job.root, self.job.encoder
        root.mkdir(parents=True, exist_ok=True)
        plan = self.plan()
        if self._displaces:
            self.clear()
            self._displaces = False
        if isinstance(encoder, Tokenizer):
            save_copy(root, copy_files(encoder.recipe), self.job.remote)
        save_plan(root, plan)
        if self.job.remote is not None:
            self.job.remote.publish_plan(root)
        return plan

    def _make_tasks(self, plan: Plan, todo: list[Unit], control: Control) -> Iterator[UnitTask]:
        """Return the tasks of units. With `deduplicate`, hash missing units and compare all hashes first."""
        root, duplicates = self.job.root, None
        if self.job.config.filter.deduplicate and todo:
            unhashed = [unit for unit in plan.units if not has_hashes(root, unit.name)]
            tasks = (make_task(unit, plan.inputs) for unit in unhashed)
            for _ in self.executor.run(hash_unit, self.job, tasks, len(unhashed), Control(stop=control.stop)):
                pass
            duplicates = Duplicates(root, [unit.name for unit in plan.units], self.memory_budget)
        return (
            make_task(unit, plan.inputs, duplicates.find_in(unit.name) if duplicates else None)
            for unit in todo
        )

    def _check_limit(self, manifest: Manifest) -> None:
        """Raise `RejectLimitError` if more records were rejected than `max_errors` allows."""
        limit, rejected = self.job.config.source.max_errors, manifest.account.rejected
        if limit is not None and rejected.total() > limit:
            counts = ", ".join(f"{reason} {count}" for reason, count in rejected.most_common())
            first = manifest.rejects[0].place if manifest.rejects else "?"
            raise RejectLimitError(
                f"the dataset is finished, but {rejected.total()} records were left out ({counts}), "
                f"more than max_errors {limit}; the first is {first}. The manifest lists the first places"
            )

    def clear(self) -> None:
        """Remove the files of an earlier job in the output directory."""
        ours = [*OURS, *{name for known in list_formats() for name in known.extra_files}]
        with explain_faults(self.job.root):
            for path in (self.job.root / name for name in ours):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        if self.job.remote is not None:
            self.job.remote.clear(ours)


def parse_unit_range(text: str) -> tuple[int, int]:
    """Return a part and the number of parts: `"0/4"` is `(0, 4)`."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise ConfigError(f"unit_range is {text!r}; expected i/n with i from 0 to n - 1, for example 0/4")
    return int(number), int(count)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` on SIGINT and SIGTERM during the block. A second SIGINT ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set handlers
        return

    def ask(number: int, frame: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def list_left_out(dataset: Dataset) -> dict[str, str]:
    """Return the dropped parts of the input: `{"documents left out": "3 (blank 3)"}`."""
    account, view = dataset.manifest.account, dataset.manifest.packing.view
    counts = {
        "documents left out": account.documents_dropped,
        "records refused": account.rejected,
        "records changed": account.replaced,
        "tokens left out": account.tokens_dropped,
    }
    found = {
        what: f"{some.total():,} ({', '.join(f'{reason} {n:,}' for reason, n in some.most_common())})"
        for what, some in counts.items()
        if some.total()
    }
    if dataset.has_loss_mask and view is not None and view.too_long is not None:
        documents, tokens = dataset.shards.count_longer(view.context_length)
        if documents:
            found["conversations longer than a row"] = f"{documents:,} ({tokens:,} tokens too long)"
    return found
