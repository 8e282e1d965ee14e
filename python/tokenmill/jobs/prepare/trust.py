"""Whether native may be trusted with a job's documents: compared with Hugging Face beside its first units.

Loading Hugging Face takes longer than many a job. So units are read, encoded and written while the comparison
runs, but none of them counts (no receipt) before it has come out equal. If it has not, the job starts over
with Hugging Face's engine; nothing that native made is kept.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tokenmill.base.console import lines
from tokenmill.engine.backends import hf_pool
from tokenmill.engine.parity.check import SAMPLE_BYTES, Verdict, check_parity, take_sample
from tokenmill.engine.parity.memory import ParityMemory
from tokenmill.engine.tokenizer import Tokenizer
from tokenmill.jobs.executors.local import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.engine.backends.backend import Special
    from tokenmill.jobs.prepare.preparation import Preparation
    from tokenmill.jobs.units.job import Job

    T = TypeVar("T")

# Hugging Face is some two hundred times slower than native, so a comparison on this share of the input adds
# a tenth to the time of the job itself; a small job still compares this much.
SHARE = 2048
SMALL_SAMPLE = 1 << 15


class DistrustError(Exception):
    """Native gives other ids than Hugging Face; never seen outside of `led`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__("native and Hugging Face differ")
        self.tokenizer = tokenizer


def led(preparation: Preparation, lead: Callable[[Preparation], T]) -> T:
    """What `lead` gives with the engine that may be trusted."""
    try:
        return lead(preparation)
    except DistrustError as found:
        job = replace(preparation.job, encoder=found.tokenizer)
        return lead(replace(preparation, job=job, trusted=_at_once))


def compared(preparation: Preparation, texts: list[str]) -> Preparation:
    """The same job with the comparison under way; made first where units run in other processes."""
    job, encoder = preparation.job, preparation.job.encoder
    if not job.config.tokenizer.parity_check or not texts or not isinstance(encoder, Tokenizer):
        return preparation
    if encoder.strategy.name != "native":
        return preparation
    total = sum(file.size for file in preparation.inputs)
    sample = take_sample(texts, max(SMALL_SAMPLE, min(SAMPLE_BYTES, total // SHARE)))
    special = allowed(job)
    memory = ParityMemory(encoder, sample, special)
    if memory.agreed():
        lines.parity_known(len(sample))
        return preparation
    trust = _Trust(encoder, sample, special, preparation.threads, memory)
    if isinstance(preparation.executor, LocalExecutor):
        trust.start()
        return replace(preparation, trusted=trust.wait)
    trust.compare()
    return replace(preparation, job=replace(job, encoder=trust.verdict.tokenizer))


def allowed(job: Job) -> Special:
    """A forbidden token is the job's own to find: it knows the file and the row."""
    special = job.config.tokenizer.special
    return "text" if special == "forbid" else special


class _Trust:
    """One comparison, in a thread if it is started; whoever waits gets its verdict or its error."""

    def __init__(
        self, encoder: Tokenizer, sample: list[str], special: Special, threads: int, memory: ParityMemory
    ) -> None:
        self._encoder = encoder
        self._sample = sample
        self._special = special
        self._threads = threads
        self._memory = memory
        self._thread = threading.Thread(target=self._run, name="tokenmill-parity", daemon=True)
        self._error: BaseException | None = None
        self.verdict = Verdict(encoder)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Return when native is trusted; raise `DistrustError` when it is not."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self.verdict.difference:
            raise DistrustError(self.verdict.tokenizer)

    def compare(self) -> None:
        with hf_pool.sized(self._threads):
            self.verdict = check_parity(
                self._encoder, self._sample, special=self._special, threads=self._threads
            )
        if self.verdict.documents and not self.verdict.difference:
            self._memory.remember()

    def _run(self) -> None:
        try:
            self.compare()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error


def _at_once() -> None:
    """The comparison has been made."""
