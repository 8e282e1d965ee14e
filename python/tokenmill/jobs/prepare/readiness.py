"""The last look before a job's clock starts: a warm-up, sizes, words, and the comparison to be passed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.base.console import lines, words
from tokenmill.base.hardware import disk
from tokenmill.base.hardware.batch import batch_size, held_bytes
from tokenmill.base.hardware.machine import measure
from tokenmill.engine.backends import hf_pool
from tokenmill.jobs.executors.local import LocalExecutor
from tokenmill.jobs.prepare.trust import allowed, compared
from tokenmill.sources.first_documents import sample_documents

if TYPE_CHECKING:
    from tokenmill.base.hardware.machine import Machine
    from tokenmill.jobs.prepare.preparation import Preparation
    from tokenmill.jobs.units.job import Job
    from tokenmill.sources.first_documents import Sample

logger = logging.getLogger("tokenmill.prepare")
WARM_UP_DOCUMENTS = 64
PROBE_BYTES = 4 << 20
# A smaller job is done before it matters how its shard was written.
PROBED_FROM = 64 << 20


def made_ready(preparation: Preparation) -> Preparation:
    """The same job with sizes that suit its documents, its comparison under way; says how it will run."""
    job = preparation.job
    sample = sample_documents(preparation.inputs, job.config.source)
    if isinstance(preparation.executor, LocalExecutor):
        warm_up(job, sample.texts, preparation.threads)
    machine = measure()
    executor = preparation.executor
    if isinstance(executor, LocalExecutor):
        executor = sized(executor, sample, machine)
        if sum(file.size for file in preparation.inputs) >= PROBED_FROM:
            executor = suited_to_disk(executor, job, machine)
    tell(job, preparation, machine, getattr(executor, "batch_size", None))
    # Last, so that the comparison runs beside the first units and not beside all of the above.
    return compared(replace(preparation, executor=executor), sample.texts)


def sized(executor: LocalExecutor, sample: Sample, machine: Machine) -> LocalExecutor:
    """Documents per batch by their size, unless the user set them; then a word if memory cannot hold them."""
    if executor.batch_size is None:
        size = batch_size(sample.average_bytes, executor.memory_budget, executor.threads)
        return replace(executor, batch_size=size)
    needed = held_bytes(sample.average_bytes, executor.batch_size, executor.threads)
    if needed > machine.memory.available:
        logger.warning(
            "batch_size %d of documents of %s is more than memory holds (%s); batches are cut to blocks",
            executor.batch_size,
            words.size(sample.average_bytes or 0),
            words.size(machine.memory.available),
        )
    return executor


def suited_to_disk(executor: LocalExecutor, job: Job, machine: Machine) -> LocalExecutor:
    """On a disk that is slow to flush, a shard is gathered in memory and written in one go."""
    if job.config.execution.keep_in_memory is not None or machine.memory.mode == "disk":
        return executor
    try:
        speed = disk.probe(disk.nearest_existing(job.root), PROBE_BYTES)
    except OSError as error:
        # A full disk is the job's own to report, with what to do.
        logger.debug("Disk not measured: %s", error)
        return executor
    told = f"{words.size(speed.write)}/s write, {speed.flush_seconds * 1000:.1f} ms a flush"
    if speed.kind == "fast":
        logger.debug("Disk: %s", told)
        return executor
    logger.info("Disk is slow (%s): each shard is gathered in memory and written in one go", told)
    return replace(executor, keep_in_memory=True)


def warm_up(job: Job, texts: list[str], threads: int) -> None:
    """One batch that is not timed, so that caches and processes exist when the clock starts.

    Native has neither to wait for: its threads fill their caches beside the first reads.
    """
    strategy = getattr(job.encoder, "strategy", None)
    if texts and (strategy is None or strategy.name != "native"):
        lines.warming_up()
        with hf_pool.sized(threads):
            job.encoder.encode_batch(texts[:WARM_UP_DOCUMENTS], special=allowed(job), threads=threads)
        lines.warmed_up()


def tell(job: Job, preparation: Preparation, machine: Machine, size: int | None) -> None:
    """The lines that users look for before the first document is done."""
    execution, packing = job.config.execution, job.config.packing
    strategy = getattr(job.encoder, "strategy", None)
    name = strategy.name if strategy is not None else "native"
    processes = execution.num_proc or machine.slow_processes
    workers, kind = (processes, "processes") if name == "slow" else (preparation.threads, "threads")
    lines.dataset_settings(workers, size, execution.writer_batch_size)
    lines.performance_configuration(name, size, threads=preparation.threads, num_proc=processes)
    lines.memory_mode(machine.memory)
    lines.packing(packing.mode, packing.context_length, packing.overlap)
    lines.split_start(job.config.source.split or "train", workers=workers, kind=kind)
