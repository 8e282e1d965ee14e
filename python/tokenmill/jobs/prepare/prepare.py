"""`tokenmill.prepare`: raw text in, a dataset that every rank can map at once out."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tokenmill.base.console import lines, logs
from tokenmill.base.errors import ConfigError, InputNotFoundError, TokenizerNotFoundError
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.store.remote import Remote
from tokenmill.datasets.store.store import is_remote
from tokenmill.jobs.executors.choose import budget, choose_executor
from tokenmill.jobs.prepare.launch import alone, this_launch, with_all_cores
from tokenmill.jobs.prepare.mirror import Mirror
from tokenmill.jobs.prepare.outcome import Outcome
from tokenmill.jobs.prepare.preparation import Preparation
from tokenmill.jobs.prepare.ranks import lead_or_wait
from tokenmill.jobs.prepare.readiness import made_ready
from tokenmill.jobs.prepare.splits import by_split, note_splits, of_split
from tokenmill.jobs.prepare.tokenizers import load_tokenizer
from tokenmill.jobs.prepare.trust import led
from tokenmill.jobs.units.job import make_job
from tokenmill.settings.resolve import from_options
from tokenmill.sources import discover, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.jobs.executors.base import Executor
    from tokenmill.jobs.units.job import Job
    from tokenmill.settings.resolve import Resolved
    from tokenmill.sources import InputFile

logger = logging.getLogger("tokenmill.prepare")


@overload
def prepare(
    config: str | Path | Resolved | None = None,
    *,
    dataset: None = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Dataset: ...
@overload
def prepare(
    config: str | Path | Resolved | None = None,
    *,
    dataset: Any,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Dataset | dict[str, Dataset]: ...
def prepare(
    config: str | Path | Resolved | None = None,
    *,
    dataset: Any = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Dataset | dict[str, Dataset]:
    """Read, filter, tokenize, pack and write; resume what was begun; open what is finished.

    >>> prepare(inputs="corpus/*.jsonl", tokenizer="gpt2", output="out")  # doctest: +SKIP
    Dataset('out', documents=14,593, tokens=18,340,182, dtype=uint16)

    `config` is a YAML file or settings resolved before; `options` are the names of docs/configuration.md.
    `dataset` is data in memory instead of `inputs`: a Hugging Face `Dataset` or `DatasetDict`, an Arrow
    table, a list of texts or records. `tokenizer` is a name, a path or a tokenizer object; `keep` is a
    function of the text that says which documents stay. Inputs with several splits give a dictionary.
    """
    resolved, tokenizer = _resolved(config, tokenizer, options)
    with _inputs(dataset) as inputs:
        every = set_up_splits(resolved, inputs=inputs, tokenizer=tokenizer, keep=keep, fresh=fresh)
        made = {name: execute(preparation).dataset for name, preparation in every.items()}
        note_splits(resolved, list(made))
    return made if len(made) > 1 else next(iter(made.values()))


def _inputs(dataset: Any) -> AbstractContextManager[Sequence[InputFile] | None]:
    if dataset is None:
        return nullcontext()
    from tokenmill.sources.memory import attached  # which brings Arrow along

    return attached(dataset)


def _resolved(config: Any, tokenizer: Any, options: dict[str, Any]) -> tuple[Resolved, Any]:
    if isinstance(tokenizer, str | Path):
        options["tokenizer"], tokenizer = str(tokenizer), None
    if config is None or isinstance(config, str | Path):
        return from_options(config, **options), tokenizer
    if options:
        raise ConfigError(f"settings are resolved already; {', '.join(options)} cannot be added")
    return config, tokenizer


def set_up_splits(
    resolved: Resolved,
    *,
    inputs: Sequence[InputFile] | None = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
) -> dict[str, Preparation]:
    """One preparation per split, by name; one with an empty name where the inputs have no splits."""
    resolved = with_all_cores(resolved)
    executor = _warmed(resolved)
    with resolved.blamed("source.inputs", InputNotFoundError):
        found = by_split(discover(resolved.config.source) if inputs is None else inputs)
    every: dict[str, Preparation] = {}
    for name, files in found.items():
        every[name] = set_up(
            of_split(resolved, name),
            inputs=files,
            tokenizer=tokenizer,
            keep=keep,
            fresh=fresh,
            executor=executor,
        )
        tokenizer = every[name].job.encoder
    return every


def _warmed(resolved: Resolved) -> Executor:
    """The executor; a cluster begins to start its workers now, while this process still reads and plans."""
    execution = resolved.config.execution
    executor = choose_executor(execution)
    if alone() or this_launch().leads:
        executor.warm()
    return executor


def set_up(
    resolved: Resolved,
    *,
    inputs: Sequence[InputFile] | None = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    executor: Executor | None = None,
) -> Preparation:
    """Find inputs, load the tokenizer, settle what was left open, and say what was chosen."""
    config = resolved.config
    execution = config.execution
    logs.configure(execution.verbose_level, log_json=execution.log_json)
    for warning in resolved.warnings:
        logger.warning("%s", warning)
    if config.output.path is None:
        raise ConfigError("no output directory: give --output DIR (in Python output=...)")
    if inputs is None:
        with resolved.blamed("source.inputs", InputNotFoundError):
            inputs = discover(config.source)
    source, found = settle(config.source, inputs)
    config = config.replaced(source=source)
    with resolved.blamed("tokenizer.tokenizer_name", TokenizerNotFoundError):
        encoder = load_tokenizer(config, tokenizer)
    job = _with_output(config, encoder, keep)
    for line in [*found, *_choices(job)]:
        logger.info("%s", line)
    strategy = getattr(encoder, "strategy", None)
    if strategy is not None:
        processes = execution.num_proc or resolved.machine.slow_processes
        lines.tokenizer_type(strategy.name, strategy.reason, processes)
        for line in resolved.ignored(strategy.name):
            logger.warning("%s", line)
    threads, memory = budget(execution)
    preparation = Preparation(job, inputs, executor or choose_executor(execution), threads, memory)
    if fresh:
        if not alone():
            # A rank that is late could not tell the new dataset from the one that is to go.
            raise ConfigError(
                "fresh=True is for one process, and this is one of several ranks: remove "
                f"{job.root} before the launch, or run `tokenmill prepare --fresh` once"
            )
        preparation.clear()
    return preparation


def _with_output(config: Any, encoder: Any, keep: Callable[[str], bool] | None) -> Job:
    """The job; for an output in an object store with a work directory that shows what is there already."""
    if not is_remote(config.output.path):
        return make_job(config, encoder, keep=keep)
    remote = Remote.at(config.output.path)
    job = replace(make_job(config, encoder, root=remote.work, keep=keep), remote=remote)
    remote.store.check()
    remote.pull(job.root)
    return job


def _choices(job: Any) -> list[str]:
    packing = job.packing
    ids = ", ".join(
        f"{role} {'none' if value is None else value}"
        for role, value in (("BOS", packing.bos_id), ("EOS", packing.eos_id), ("padding", packing.pad_id))
    )
    return [
        f"Tokenizer: {job.tokenizer.name}, {job.tokenizer.vocab_size} ids -> {job.dtype}",
        f"Packing: {packing.mode}"
        + (f", context_length {packing.context_length}" if packing.context_length else ""),
        f"Tokens around each document: {ids}",
        f"Output: {job.config.output.format} in {job.location}",
    ]


class _Clock:
    """Seconds from when it was made or restarted until it was stopped, or until now."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._started = time.monotonic()
        self._stopped: float | None = None

    def stop(self) -> None:
        self._stopped = time.monotonic()

    def seconds(self) -> float:
        return (self._stopped or time.monotonic()) - self._started


def _led(preparation: Preparation, clock: _Clock) -> Dataset:
    ready = made_ready(preparation)
    # The warm-up and the report are not what a user times.
    clock.restart()
    led(ready, Preparation.lead)
    clock.stop()
    job = preparation.job
    if job.config.output.report:
        from tokenmill.insight.report.report import report_if_possible

        report_if_possible(job.location, job.encoder)
    return open_dataset(job.location)


def execute(preparation: Preparation) -> Outcome:
    """Do the job, or wait for the rank that does it, or open what is done; and say how it went."""
    if preparation.job.config.execution.unit_range is not None:
        raise ConfigError(
            "unit_range does a share of a job: use the command, or tokenmill.jobs.prepare.share.prepare_share"
        )
    job, root = preparation.job, preparation.job.root
    fields = job.values | {"inputs": [file.url for file in preparation.inputs]}
    clock = _Clock()
    worked = preparation.finished() is None
    if worked:
        dataset = lead_or_wait(
            root,
            fields,
            job.config.execution,
            finished=lambda: open_dataset(job.location) if preparation.finished() else None,
            lead=lambda: _led(preparation, clock),
            mirror=Mirror(job.remote) if job.remote is not None else None,
        )
    else:
        dataset = open_dataset(job.location)
    outcome = Outcome(dataset, clock.seconds(), worked)
    if worked:
        split = job.config.source.split or "train"
        lines.completion(split, dataset.manifest.account.documents_read, outcome.seconds)
    else:
        logger.info("Nothing to do: %s is complete", job.location)
    return outcome
