"""`tokenmill.train`: texts to a tokenizer, through counts that can be kept and merges that can be resumed."""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.console.progress import Progress
from tokenmill.base.errors import ConfigError, InputError
from tokenmill.base.hardware.machine import measure
from tokenmill.engine.tokenizer import Tokenizer
from tokenmill.engine.training.checkpoint import Checkpoint
from tokenmill.engine.training.counting import Counted, Counting, count_all
from tokenmill.engine.training.counts_file import add_saved, save_counts
from tokenmill.engine.training.inputs import Corpus, open_corpus
from tokenmill.engine.training.merging import Merged, MergeState, merge
from tokenmill.engine.training.options import TieBreak, TrainOptions
from tokenmill.engine.training.outputs import SaveFormat, save_all
from tokenmill.engine.training.summary import summarise
from tokenmill.engine.training.vocabulary import minbpe_recipe_of, recipe_of
from tokenmill.jobs.count_parts import count_by_parts
from tokenmill.jobs.executors.choose import choose_executor
from tokenmill.jobs.units.events import Recorder
from tokenmill.settings.schema import ExecutionConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenmill.settings.fields import ExecutorName

logger = logging.getLogger("tokenmill.train")
# Counting that took longer than this is kept on disk, so that a resumed run need not repeat it.
DEAR_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """A whole training: what decides the vocabulary, and how it is run."""

    inputs: Any
    options: TrainOptions
    threads: int | None = None
    memory_budget: int | None = None
    counts: tuple[Any, ...] = ()
    progress: bool | Callable[[str, int, int | None], None] | None = None
    output: Path | None = None
    save_as: tuple[SaveFormat, ...] = ("hf",)
    save_counts: Path | None = None
    resume: bool = False
    checkpoint_every: int | None = None
    spill_dir: Path | None = None
    verbose: bool = False
    source: dict[str, Any] = field(default_factory=dict)
    executor: ExecutorName = "local"
    ray_address: str | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """The tokenizer, and the figures of how it came about."""

    tokenizer: Tokenizer
    summary: dict[str, Any]


def train(
    inputs: Any = None,
    vocab_size: int = 32_000,
    *,
    pattern: str = "gpt2",
    special_tokens: Sequence[str] = (),
    min_frequency: int = 0,
    min_piece_frequency: int = 1,
    max_token_length: int | None = None,
    tie_break: TieBreak = "huggingface",
    held_out: float = 0.0,
    threads: int | None = None,
    memory_budget: int | None = None,
    counts: Any = None,
    progress: bool | Callable[[str, int, int | None], None] | None = None,
    output: str | Path | None = None,
    save_as: Sequence[SaveFormat] = ("hf",),
    save_counts: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: int | None = None,
    spill_dir: str | Path | None = None,
    verbose: bool = False,
    executor: ExecutorName = "local",
    ray_address: str | None = None,
    **source: Any,
) -> Tokenizer:
    """Train a byte-level BPE tokenizer: `train("corpus/*.txt", 32_000).encode("hello")` -> `[…]`.

    `inputs` is a path, glob or list of them, or an iterable of str, an Arrow array or an HF dataset.
    `pattern` is a family's name (`gpt2`, `cl100k`, `o200k`, `llama3`…) or a regex. `tie_break` decides
    between pairs of equal counts: `huggingface` takes the lowest ids, `lexicographic` the greatest bytes.
    `counts` adds files made by `save_counts`, each with a weight: `("a.parquet:2.0", "b.parquet")`.
    `progress` may be a function of (stage, done, total). The result never depends on `threads` or
    `memory_budget`.
    """
    options = TrainOptions(
        vocab_size,
        pattern,
        tuple(special_tokens),
        min_frequency,
        min_piece_frequency,
        max_token_length,
        tie_break,
        held_out,
    )
    request = TrainRequest(
        inputs,
        options,
        threads,
        memory_budget,
        _specs(counts),
        progress,
        None if output is None else Path(output),
        tuple(save_as),
        None if save_counts is None else Path(save_counts),
        resume,
        checkpoint_every,
        None if spill_dir is None else Path(spill_dir),
        verbose,
        source,
        executor,
        ray_address,
    )
    return run(request).tokenizer


def _specs(counts: Any) -> tuple[Any, ...]:
    if counts is None:
        return ()
    return (counts,) if isinstance(counts, str | Path) else tuple(counts)


def run(request: TrainRequest) -> Trained:
    """Count, merge, save; raises before anything is written when the request makes no sense."""
    started = time.perf_counter()
    _check(request)
    with open_corpus(request.inputs, request.source) as corpus:
        if not corpus.files and not request.counts:
            raise InputError("nothing to train on; name input files, texts or counts")
        trained = _run(request, corpus, started)
    if request.output is not None and "hf" in request.save_as:
        from tokenmill.insight.report.report import report_if_possible

        report_if_possible(request.output)
    return trained


def _run(request: TrainRequest, corpus: Corpus, started: float) -> Trained:
    job = {
        "options": request.options.identity(),
        "inputs": corpus.identity(),
        "counts": [str(spec) for spec in request.counts],
    }
    checkpoint = Checkpoint(request.output, job)
    steps = checkpoint.begin(resume=request.resume)
    with _watched(request, corpus) as watch:
        counted = _count(request, corpus, checkpoint, watch, kept=steps is not None)
        merged = _merge(request, counted, checkpoint, watch, steps)
        tokenizer = Tokenizer(recipe_of(merged, request.options, str(request.output or "trained")))
        seconds = time.perf_counter() - started
        summary = summarise(request.options, counted, merged, tokenizer, seconds)
        if request.output is not None:
            minbpe = partial(minbpe_recipe_of, merged, request.options, str(request.output))
            save_all(tokenizer, request.output, request.save_as, {**summary, "job": job}, minbpe)
            checkpoint.remove()
    return Trained(tokenizer, summary)


def _watched(request: TrainRequest, corpus: Corpus) -> Recorder | nullcontext[None]:
    """What others may watch while the job runs; the units of a training are its merges."""
    if request.output is None:
        return nullcontext()
    request.output.mkdir(parents=True, exist_ok=True)
    wanted = request.options.model_tokens - 256
    return Recorder(request.output, bytes_total=corpus.total_bytes, units_total=wanted, units_done=0)


def _check(request: TrainRequest) -> None:
    for name in ("threads", "memory_budget", "checkpoint_every"):
        value = getattr(request, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{name} is {value!r}; expected a positive integer")
    if request.resume and request.output is None:
        raise ConfigError(
            "resume needs an output directory, where the interrupted training left its checkpoint"
        )


def _count(
    request: TrainRequest, corpus: Corpus, checkpoint: Checkpoint, watch: Recorder | None, *, kept: bool
) -> Counted:
    options = request.options
    machine = measure()
    threads = request.threads or machine.cores.usable
    budget = request.memory_budget or machine.memory_budget
    if watch is not None:
        watch.phase("counting")
        watch.start(resumed=kept, threads=threads, memory=budget)
    counting = Counting(
        options,
        threads=threads,
        memory_budget=budget,
        spill_dir=str(request.spill_dir or request.output or tempfile.gettempdir()),
    )
    saved = checkpoint.counts
    if kept and saved is not None and saved.is_file():
        add_saved(counting, options, [saved])
        return counting.finish()
    add_saved(counting, options, request.counts)
    counting.inputs.extend(corpus.identity())
    for note in corpus.notes:
        logger.info("%s", note)
    with _telling(request, "Counting", corpus.total_bytes, "bytes") as tell:
        execution = ExecutionConfig(
            executor=request.executor,
            ray_address=request.ray_address,
            threads=threads,
            memory_budget=budget,
        )
        executor = choose_executor(execution)
        if executor.in_process:
            readers = corpus.readers(threads)
            count_all(counting, corpus.blocks(), _both(tell, watch), readers=readers)
        else:
            count_by_parts(counting, options, corpus, executor, request.output, _both(tell, watch))
    counted = counting.finish()
    if request.save_counts is not None:
        save_counts(counted, options, request.save_counts)
    if saved is not None and counted.seconds > DEAR_SECONDS:
        checkpoint.open()
        save_counts(counted, options, saved)
    return counted


def _both(tell: Progress, watch: Recorder | None) -> Callable[..., None]:
    def advance(amount: int, *, documents: int) -> None:
        tell.advance(amount, documents=documents)
        if watch is not None:
            watch.count(bytes=amount, documents=documents)

    return advance


def _merge(
    request: TrainRequest, counted: Counted, checkpoint: Checkpoint, watch: Recorder | None, steps: Any
) -> Merged:
    wanted = request.options.model_tokens - 256
    if watch is not None:
        watch.phase("merging")
    with _telling(request, "Merging", wanted, "merges") as tell:

        def advance(state: MergeState) -> None:
            fresh = state.merges - tell.done
            if watch is not None:
                watch.count(units_done=fresh)
            tell.advance(fresh)
            if request.verbose:
                _tell_resources(state)

        return merge(
            counted,
            request.options,
            checkpoint=checkpoint,
            steps=steps,
            checkpoint_every=request.checkpoint_every,
            tell=advance,
        )


def _tell_resources(state: MergeState) -> None:
    import psutil

    process = psutil.Process()
    logger.info(
        "merge %d of %d: memory %.1f MB, CPU %.1f %%",
        state.merges,
        state.wanted,
        process.memory_info().rss / 1e6,
        process.cpu_percent(),
    )


def _telling(request: TrainRequest, stage: str, total: int | None, unit: str) -> Progress:
    if callable(request.progress):
        return _Called(request.progress, stage, total, unit)
    return Progress(stage, total, unit=unit, show=request.progress is not False)


class _Called(Progress):
    """Progress that is told to the caller's function instead of to people."""

    def __init__(
        self, call: Callable[[str, int, int | None], None], stage: str, total: int | None, unit: str
    ) -> None:
        super().__init__(stage, total, unit=unit, show=False)
        self._call = call

    def advance(self, amount: int = 0, **counts: int) -> None:
        super().advance(amount, **counts)
        self._call(self.description.lower(), self.done, self.total)
