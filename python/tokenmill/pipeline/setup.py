"""From settings to runs: inputs found, the tokenizer loaded, what was left open settled and logged."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.console import lines, logs
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.splits import TRAINING, VALIDATION
from tokenmill.datasets.store.remote import Remote
from tokenmill.datasets.store.store import replace_file
from tokenmill.errors import ConfigError, InputNotFoundError, TokenizerNotFoundError
from tokenmill.pipeline.executors.choose import check_inputs, choose_executor
from tokenmill.pipeline.job import make_job
from tokenmill.pipeline.launch import find_launch, is_alone, use_all_cores
from tokenmill.pipeline.run import Run
from tokenmill.pipeline.set_up_chat import describe_chat, prefers_chat, settle_chat
from tokenmill.pipeline.tokenizers import load_tokenizer
from tokenmill.sources import discover, settle
from tokenmill.sources.fields import list_record_fields
from tokenmill.sources.stores import is_remote, join_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenmill.pipeline.job import Job
    from tokenmill.settings.resolve import Resolved
    from tokenmill.settings.schema import JobConfig
    from tokenmill.sources import InputFile

logger = logging.getLogger("tokenmill.prepare")


def set_up(
    resolved: Resolved,
    *,
    inputs: Sequence[InputFile] | None = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
) -> dict[str, Run]:
    """A run for each split of the inputs, by name; one with an empty name where they have no splits.

    Beside that one there is another for validation, if a share of the documents is set aside for it.
    """
    resolved = use_all_cores(resolved)
    execution = resolved.config.execution
    logs.configure(execution.verbose_level, log_json=execution.log_json)
    for warning in resolved.warnings:
        logger.warning("%s", warning)
    executor = choose_executor(execution)
    if is_alone() or find_launch().leads:
        # A cluster begins to start its workers now, while this process still reads and plans.
        executor.warm()
    if inputs is None:
        with resolved.name_setting("source.inputs", InputNotFoundError):
            inputs = discover(resolved.config.source, resolved.config.output.path)
    check_inputs(executor, inputs)
    runs: dict[str, Run] = {}
    by_split = _group_by_split(inputs)
    for name, files in by_split.items() if "" not in by_split else _list_parts(resolved, by_split[""]):
        job = _settle_job(_narrow_to_split(resolved, name), files, tokenizer, keep)
        tokenizer = job.encoder
        runs[name] = Run(job, files, executor)
        if fresh:
            _clear(runs[name])
    return runs


def _clear(run: Run) -> None:
    if not is_alone():
        # A rank that is late could not tell the new dataset from the one to remove.
        raise ConfigError(
            "fresh=True is for one process, and this is one of several ranks: remove "
            f"{run.job.root} before the launch, or run `tokenmill prepare --fresh` once"
        )
    run.clear()


def _group_by_split(inputs: Sequence[InputFile]) -> dict[str, list[InputFile]]:
    """The inputs of each split by its name, in order; the empty name where there are none or only one."""
    names = list(dict.fromkeys(file.split for file in inputs))
    if len(names) < 2:
        return {"": list(inputs)}
    return {name or "rest": [file for file in inputs if file.split == name] for name in names}


def _list_parts(resolved: Resolved, files: list[InputFile]) -> list[tuple[str, list[InputFile]]]:
    """The datasets of inputs without splits: one, and one more for validation where a share is asked for."""
    chosen = resolved.config.filter
    names = [""] if chosen.validation is None or chosen.validation_part == TRAINING else ["", VALIDATION]
    return [(name, files) for name in (names if chosen.validation_part != VALIDATION else [VALIDATION])]


def _narrow_to_split(resolved: Resolved, name: str) -> Resolved:
    """The settings of one split's dataset: its own directory below the output; the output for training."""
    config = resolved.config
    if config.filter.validation is not None:
        if name not in ("", VALIDATION) or config.source.split is not None:
            raise ConfigError(
                f"the inputs already have splits ({name or config.source.split}): leave out validation, "
                "or give inputs without splits"
            )
        part = replace(config.filter, validation_part=VALIDATION if name else TRAINING)
        resolved = replace(resolved, config=replace(config, filter=part))
    elif name:
        source = replace(config.source, split=name)
        resolved = replace(resolved, config=replace(config, source=source))
    if not name or config.output.path is None:
        return resolved
    output = replace(config.output, path=join_address(config.output.path, name))
    return replace(resolved, config=replace(resolved.config, output=output))


def write_split_list(resolved: Resolved, names: Sequence[str]) -> None:
    """Write the file by which the format's readers know that the directory holds several datasets."""
    output = resolved.config.output
    make_list = find_format(output.format).list_splits
    if make_list is not None and output.path is not None and len(names) > 1 and "" not in names:
        replace_file(output.path, *make_list(names))


def _settle_job(
    resolved: Resolved, inputs: Sequence[InputFile], tokenizer: Any, keep: Callable[[str], bool] | None
) -> Job:
    """The job of some inputs, with a line for everything that was chosen."""
    path = resolved.config.output.path
    if path is None:
        raise ConfigError("no output directory: give --output DIR (in Python output=...)")

    def load() -> Any:
        nonlocal tokenizer
        with resolved.name_setting("tokenizer.tokenizer_name", TokenizerNotFoundError):
            tokenizer = load_tokenizer(resolved.config, tokenizer)
        return tokenizer

    source, found = settle(resolved.config.source, inputs, lambda: prefers_chat(resolved.config, load()))
    config = replace(resolved.config, source=source)
    if list_record_fields(source):
        config = settle_chat(resolved, config)
    encoder = load()
    job = _make_job(config, path, encoder, keep)
    for line in [*found, *_describe(job), *describe_chat(job)]:
        logger.info("%s", line)
    if job.lacks_separators:
        logger.warning(
            "Nothing separates documents: %s has no EOS token. Give --eos TOKEN to add one, or --eos false "
            "if that is intended",
            job.tokenizer.name,
        )
    processes = config.execution.num_proc or resolved.machine.slow_processes
    lines.log_tokenizer(job.encoder.strategy.name, job.encoder.strategy.reason, processes)
    return job


def _make_job(config: JobConfig, path: str, encoder: Any, keep: Callable[[str], bool] | None) -> Job:
    """The job; for an output in an object store with a work directory that shows what is there already."""
    if not is_remote(path):
        return make_job(config, encoder, root=Path(path), keep=keep)
    remote = Remote.at(path)
    job = replace(make_job(config, encoder, root=remote.work, keep=keep), remote=remote)
    remote.store.check()
    remote.pull(job.root)
    return job


def _describe(job: Job) -> list[str]:
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
