"""The last look before a job's clock starts: parity on its own documents, a warm-up, sizes, and words."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.console import lines, words
from tokenmill.executors.local import LocalExecutor
from tokenmill.hardware import disk
from tokenmill.hardware.batch import batch_size, held_bytes
from tokenmill.hardware.machine import measure
from tokenmill.pipeline.sample import sample_documents
from tokenmill.tokenizer import hf_pool
from tokenmill.tokenizer.parity import SAMPLE_BYTES, check_parity
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.hardware.machine import Machine
    from tokenmill.jobs.preparation import Preparation
    from tokenmill.pipeline.job import Job
    from tokenmill.pipeline.sample import Sample
    from tokenmill.tokenizer.backend import Special

logger = logging.getLogger("tokenmill.prepare")
WARM_UP_DOCUMENTS = 64
PROBE_BYTES = 4 << 20
# Hugging Face is about a hundred times slower than native, so a comparison on this share of the input adds
# well under the time of the job itself; a small job still compares this much.
SHARE = 256
SMALL_SAMPLE = 1 << 16


def made_ready(preparation: Preparation) -> Preparation:
    """The same job with the engine that may be trusted with it; says how it will run."""
    job = preparation.job
    sample = sample_documents(preparation.inputs, job.config.source)
    with hf_pool.sized(preparation.threads):
        job = checked(job, sample.texts, preparation)
        warm_up(job, sample.texts, preparation.threads)
    machine = measure()
    executor = preparation.executor
    if isinstance(executor, LocalExecutor):
        executor = sized(executor, sample, machine)
        executor = suited_to_disk(executor, job, machine)
    tell(job, preparation, machine, getattr(executor, "batch_size", None))
    return replace(preparation, job=job, executor=executor)


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


def checked(job: Job, texts: list[str], preparation: Preparation) -> Job:
    """Native stays native if it agrees with Hugging Face on the sample; otherwise the job goes on without."""
    wanted = job.config.tokenizer.parity_check
    if not wanted or not texts or not isinstance(job.encoder, Tokenizer):
        return job
    most = max(SMALL_SAMPLE, min(SAMPLE_BYTES, sum(file.size for file in preparation.inputs) // SHARE))
    verdict = check_parity(job.encoder, texts, special=_allowed(job), threads=preparation.threads, most=most)
    return replace(job, encoder=verdict.tokenizer) if verdict.difference else job


def warm_up(job: Job, texts: list[str], threads: int) -> None:
    """One batch that is not timed, so that caches and processes exist when the clock starts."""
    if texts:
        lines.warming_up()
        job.encoder.encode_batch(texts[:WARM_UP_DOCUMENTS], special=_allowed(job), threads=threads)
        lines.warmed_up()


def _allowed(job: Job) -> Special:
    """A forbidden token is the job's own to find: it knows the file and the row."""
    special = job.config.tokenizer.special
    return "text" if special == "forbid" else special


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
