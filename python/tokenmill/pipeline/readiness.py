"""The last look before a job's clock starts: a warm-up, sizes that suit its documents, and what is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tokenmill.base.console import lines, words
from tokenmill.base.hardware import disk
from tokenmill.base.hardware.batch import compute_batch_size, compute_held_bytes
from tokenmill.base.hardware.machine import measure
from tokenmill.pipeline.control import Batching
from tokenmill.tokenizer.engines.huggingface import limit_threads

if TYPE_CHECKING:
    from tokenmill.base.hardware.machine import Machine
    from tokenmill.pipeline.job import Job
    from tokenmill.pipeline.run import Run
    from tokenmill.sources.first_documents import FirstDocuments

logger = logging.getLogger("tokenmill.prepare")
WARM_UP_DOCUMENTS = 64
PROBE_BYTES = 4 << 20
# A smaller job is done before it matters how its shard was written.
PROBED_FROM = 64 << 20


def get_ready(run: Run, first: FirstDocuments) -> Batching:
    """How this job's documents go through its units; says how it will run."""
    job, execution, here = run.job, run.job.config.execution, run.executor.in_process
    if here:
        warm_up(job, first.texts, run.threads)
    machine = measure()
    size = choose_batch_size(run, first, machine)
    keep = execution.keep_in_memory
    if keep is None and here and sum(file.size for file in run.inputs) >= PROBED_FROM:
        keep = choose_keep_in_memory(job, machine)
    announce(run, first, machine, size)
    return Batching(size, execution.writer_batch_size, bool(keep))


def choose_batch_size(run: Run, first: FirstDocuments, machine: Machine) -> int:
    """Documents per batch by their size, unless the user set it; a warning if memory cannot hold them."""
    asked = run.job.config.execution.batch_size
    if asked is None:
        return compute_batch_size(first.average_bytes, run.memory_budget, run.threads)
    if compute_held_bytes(first.average_bytes, asked, run.threads) > machine.memory.available:
        logger.warning(
            "batch_size %d with documents of %s is more than memory can hold (%s); batches are cut to blocks",
            asked,
            words.size(first.average_bytes or 0),
            words.size(machine.memory.available),
        )
    return asked


def choose_keep_in_memory(job: Job, machine: Machine) -> bool:
    """Whether the disk is so slow to flush that shards are better gathered in memory, which has room."""
    if machine.memory.mode == "disk":
        return False
    try:
        speed = disk.probe(disk.find_existing(job.root), PROBE_BYTES)
    except OSError as error:
        # A full disk is the job's own to report, with what to do.
        logger.debug("Disk not measured: %s", error)
        return False
    figures = f"{words.size(speed.write)}/s write, {speed.flush_seconds * 1000:.1f} ms per flush"
    if speed.kind == "fast":
        logger.debug("Disk: %s", figures)
        return False
    logger.info("Disk is slow (%s): each shard is gathered in memory and written in one go", figures)
    return True


def warm_up(job: Job, texts: list[str], threads: int) -> None:
    """One batch that is not timed, so that caches and processes exist when the clock starts.

    Native needs neither: its threads fill their caches during the first reads.
    """
    if texts and not job.encoder.engine.imitates:
        lines.log_warm_up()
        with limit_threads(threads):
            special = job.lenient_special
            job.encoder.encode_batch(texts[:WARM_UP_DOCUMENTS], special=special, threads=threads)
        lines.log_warmed_up()


def announce(run: Run, first: FirstDocuments, machine: Machine, size: int) -> None:
    """The lines that users look for before the first document is done."""
    config = run.job.config
    execution, packing = config.execution, config.packing
    name = run.job.encoder.strategy.name
    processes = execution.num_proc or machine.slow_processes
    in_processes = run.job.encoder.engine.in_processes
    workers, kind = (processes, "processes") if in_processes else (run.threads, "threads")
    lines.log_loading(workers, kind, size, execution.writer_batch_size or size)
    lines.log_performance(name, size, threads=run.threads, num_proc=processes)
    lines.log_memory(machine.memory)
    lines.log_packing(packing.mode, packing.context_length, packing.overlap)
    examples = first.count_records(run.plan().foreseen_bytes)
    split = config.source.split or "train"
    lines.log_split_start(split, examples, exact=first.complete, workers=workers, kind=kind)
