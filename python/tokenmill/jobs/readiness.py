"""The last look before a job's clock starts: parity on its own documents, a warm-up, sizes, and words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.console import lines
from tokenmill.executors.local import LocalExecutor
from tokenmill.hardware.batch import batch_size
from tokenmill.hardware.machine import measure
from tokenmill.pipeline.sample import sample_documents
from tokenmill.tokenizer import hf_pool
from tokenmill.tokenizer.parity import SAMPLE_BYTES, check_parity
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.jobs.preparation import Preparation
    from tokenmill.pipeline.job import Job

WARM_UP_DOCUMENTS = 64
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
    executor = preparation.executor
    if isinstance(executor, LocalExecutor) and executor.batch_size is None:
        size = batch_size(sample.average_bytes, preparation.memory_budget, preparation.threads)
        executor = replace(executor, batch_size=size)
    tell(job, preparation, getattr(executor, "batch_size", None))
    return replace(preparation, job=job, executor=executor)


def checked(job: Job, texts: list[str], preparation: Preparation) -> Job:
    """Native stays native if it agrees with Hugging Face on the sample; otherwise the job goes on without."""
    settings = job.config.tokenizer
    if not settings.parity_check or not texts or not isinstance(job.encoder, Tokenizer):
        return job
    most = max(SMALL_SAMPLE, min(SAMPLE_BYTES, sum(file.size for file in preparation.inputs) // SHARE))
    verdict = check_parity(
        job.encoder, texts, special=settings.special, threads=preparation.threads, most=most
    )
    return replace(job, encoder=verdict.tokenizer) if verdict.difference else job


def warm_up(job: Job, texts: list[str], threads: int) -> None:
    """One batch that is not timed, so that caches and processes exist when the clock starts."""
    if texts:
        lines.warming_up()
        job.encoder.encode_batch(
            texts[:WARM_UP_DOCUMENTS], special=job.config.tokenizer.special, threads=threads
        )
        lines.warmed_up()


def tell(job: Job, preparation: Preparation, size: int | None) -> None:
    """The lines that users look for before the first document is done."""
    execution, packing = job.config.execution, job.config.packing
    strategy = getattr(job.encoder, "strategy", None)
    name = strategy.name if strategy is not None else "native"
    machine = measure()
    processes = execution.num_proc or machine.slow_processes
    lines.performance_configuration(name, size, threads=preparation.threads, num_proc=processes)
    lines.memory_mode(machine.memory)
    lines.packing(packing.mode, packing.context_length, packing.overlap)
    workers, kind = (processes, "processes") if name == "slow" else (preparation.threads, "threads")
    lines.split_start(job.config.source.split or "train", workers=workers, kind=kind)
