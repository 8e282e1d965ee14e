"""The gate that units pass before they count: native compared with Hugging Face on the job's own documents.

Loading Hugging Face takes longer than many a job. So units are read, encoded and written while the comparison
runs, but none of them counts (no receipt) before it has ended without a difference. If it finds one, the job
starts over with Hugging Face's engine; nothing that native made is kept.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.base.console import lines
from tokenmill.tokenizer.engines.huggingface import limit_threads
from tokenmill.tokenizer.parity import SAMPLE_BYTES, ParityMemory, check_parity, take_sample
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.pipeline.job import Job
    from tokenmill.pipeline.run import Run
    from tokenmill.tokenizer.parity import Verdict

# Hugging Face is some two hundred times slower than native, so a comparison on this share of the input adds
# a tenth to the time of the job itself; a small job still compares this much.
SHARE = 2048
SMALL_SAMPLE = 1 << 15


class DifferentIdsError(Exception):
    """Native gives different ids from Hugging Face; never seen outside of `lead`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__("native and Hugging Face differ")
        self.tokenizer = tokenizer


class ParityGate:
    """`job` is the job with the engine to begin with; `wait` returns when its units may count."""

    def __init__(self, job: Job) -> None:
        """An open gate."""
        self.job = job

    def wait(self) -> None:
        """Return when the engine may be trusted; raise `DifferentIdsError` when it may not."""


def compare_engines(run: Run, texts: list[str]) -> ParityGate:
    """The gate of a job, its comparison under way; or finished, where units run in other processes."""
    job, encoder = run.job, run.job.encoder
    if not isinstance(encoder, Tokenizer) or not encoder.engine.imitates:
        lines.log_skipped_parity("the tokenizer's own code runs, there is nothing to compare", possible=False)
        return ParityGate(job)
    if not job.config.tokenizer.parity_check or not texts:
        off = not job.config.tokenizer.parity_check
        why = "parity_check is false" if off else "no document can be read before the job reads it"
        lines.log_skipped_parity(f"{why}, so native is not compared with Hugging Face", possible=True)
        return ParityGate(job)
    total = sum(file.size for file in run.inputs)
    sample = take_sample(texts, max(SMALL_SAMPLE, min(SAMPLE_BYTES, total // SHARE)))
    comparison = _Comparison(job, encoder, sample, run.threads)
    if comparison.memory.has_agreed():
        lines.log_known_parity(len(sample))
        return ParityGate(job)
    if run.executor.in_process:
        comparison.start()
        return comparison
    return ParityGate(replace(job, encoder=comparison.compare().tokenizer))


class _Comparison(ParityGate):
    """One comparison, in a thread if it is started; whoever waits gets its verdict or its error."""

    def __init__(self, job: Job, encoder: Tokenizer, sample: list[str], threads: int) -> None:
        super().__init__(job)
        self._encoder = encoder
        self._sample = sample
        self._threads = threads
        self.memory = ParityMemory(encoder, sample, job.lenient_special)
        self._thread = threading.Thread(target=self._run, name="tokenmill-parity", daemon=True)
        self._error: BaseException | None = None
        self._verdict: Verdict | None = None

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._verdict is not None and self._verdict.difference:
            raise DifferentIdsError(self._verdict.tokenizer)

    def compare(self) -> Verdict:
        with limit_threads(self._threads):
            verdict = check_parity(
                self._encoder, self._sample, special=self.job.lenient_special, threads=self._threads
            )
        if verdict.skipped:
            lines.log_skipped_parity(verdict.skipped, possible=True)
        elif not verdict.difference:
            self.memory.remember()
        return verdict

    def _run(self) -> None:
        try:
            self._verdict = self.compare()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
