"""Compare the native engine with Hugging Face on a job's own documents before its manifest is published.

Loading Hugging Face takes longer than many jobs, so units are processed while the comparison runs.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tokenmill.tokenizer.engines.huggingface import limit_threads
from tokenmill.tokenizer.parity import SAMPLE_BYTES, ParityMemory, check_parity, take_sample
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.pipeline.run import Run

logger = logging.getLogger("tokenmill.prepare")
# Hugging Face is about 200 times slower than native, so comparing 1/SHARE of the input adds a tenth to the
# time of a job. Small jobs compare `SMALL_SAMPLE` bytes.
SHARE = 2048
SMALL_SAMPLE = 1 << 15


def compare_engines(run: Run, texts: list[str]) -> Future[Tokenizer]:
    """Start the comparison. The result is the tokenizer to use: another one if the ids differ."""
    job, encoder = run.job, run.job.encoder
    same: Future[Tokenizer] = Future()
    same.set_result(encoder)
    own = not isinstance(encoder, Tokenizer) or not encoder.engine.needs_parity_check
    if own or job.config.source.ids_field:
        why = "the tokenizer's own code runs" if own else "the records contain ids"
        logger.info("Parity check skipped: %s, there is nothing to compare", why)
        return same
    if not job.config.tokenizer.parity_check or not texts:
        off = not job.config.tokenizer.parity_check
        why = "parity_check is false" if off else "no document can be read before the job reads it"
        logger.warning("Parity check skipped: %s, so native is not compared with Hugging Face", why)
        return same
    total = sum(file.size for file in run.inputs)
    sample = take_sample(texts, max(SMALL_SAMPLE, min(SAMPLE_BYTES, total // SHARE)))
    memory = ParityMemory(encoder, sample, job.lenient_special)
    if memory.has_agreed():
        text = "Parity: native and Hugging Face gave the same ids on these %d documents before"
        logger.info(text, len(sample))
        return same

    def compare() -> Tokenizer:
        with limit_threads(run.threads):
            verdict = check_parity(encoder, sample, special=job.lenient_special, threads=run.threads)
        if verdict.skipped:
            logger.warning("Parity check skipped: %s", verdict.skipped)
        elif not verdict.difference:
            memory.remember()
        return verdict.tokenizer

    pool = ThreadPoolExecutor(1, thread_name_prefix="tokenmill-parity")
    try:
        return pool.submit(compare)
    finally:
        pool.shutdown(wait=False)
