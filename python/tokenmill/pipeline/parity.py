"""Compare the native engine with Hugging Face on a job's own documents before its units get receipts.

Loading Hugging Face takes longer than many jobs, so units are read, encoded and written while the comparison
runs. They get receipts only after it has ended without a difference. After a difference the job starts over
with Hugging Face's engine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.pipeline.executors import do_nothing
from tokenmill.pipeline.job import Job
from tokenmill.tokenizer.engines.huggingface import limit_threads
from tokenmill.tokenizer.parity import SAMPLE_BYTES, ParityMemory, Verdict, check_parity, take_sample
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.pipeline.run import Run

logger = logging.getLogger("tokenmill.prepare")
# Hugging Face is about 200 times slower than native, so comparing 1/SHARE of the input adds a tenth to the
# time of a job. Small jobs compare `SMALL_SAMPLE` bytes.
SHARE = 2048
SMALL_SAMPLE = 1 << 15


class DifferentIdsError(Exception):
    """The native ids differ from those of Hugging Face. `tokenizer` is the one to use instead."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__("native and Hugging Face differ")
        self.tokenizer = tokenizer


def compare_engines(run: Run, texts: list[str]) -> tuple[Job, Callable[[], None]]:
    """Return the job to start, and `await_parity`, which returns when receipts may be written, or raises.

    If units run in other processes, the comparison is finished first.
    """
    job, encoder = run.job, run.job.encoder
    own = not isinstance(encoder, Tokenizer) or not encoder.engine.needs_parity_check
    if own or job.config.source.ids_field:
        why = "the tokenizer's own code runs" if own else "the records contain ids"
        logger.info("Parity check skipped: %s, there is nothing to compare", why)
        return job, do_nothing
    if not job.config.tokenizer.parity_check or not texts:
        off = not job.config.tokenizer.parity_check
        why = "parity_check is false" if off else "no document can be read before the job reads it"
        logger.warning("Parity check skipped: %s, so native is not compared with Hugging Face", why)
        return job, do_nothing
    total = sum(file.size for file in run.inputs)
    sample = take_sample(texts, max(SMALL_SAMPLE, min(SAMPLE_BYTES, total // SHARE)))
    memory = ParityMemory(encoder, sample, job.lenient_special)
    if memory.has_agreed():
        text = "Parity: native and Hugging Face gave the same ids on these %d documents before"
        logger.info(text, len(sample))
        return job, do_nothing

    def compare() -> Verdict:
        with limit_threads(run.threads):
            verdict = check_parity(encoder, sample, special=job.lenient_special, threads=run.threads)
        if verdict.skipped:
            logger.warning("Parity check skipped: %s", verdict.skipped)
        elif not verdict.difference:
            memory.remember()
        return verdict

    if not run.executor.in_process:
        return replace(job, encoder=compare().tokenizer), do_nothing
    verdict = _start(compare)

    def await_parity() -> None:
        if (found := verdict.result()).difference:
            raise DifferentIdsError(found.tokenizer)

    return job, await_parity


def _start(compare: Callable[[], Verdict]) -> Future[Verdict]:
    """Run the comparison in a daemon thread, so that a failed job can exit at once."""
    verdict: Future[Verdict] = Future()

    def work() -> None:
        try:
            verdict.set_result(compare())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            verdict.set_exception(error)

    threading.Thread(target=work, name="tokenmill-parity", daemon=True).start()
    return verdict
