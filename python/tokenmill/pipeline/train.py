"""`tokenmill.train`: train a tokenizer, with counts that can be saved and merges that can be resumed.

The module for count files is imported on use, because it imports Arrow, which plain files do not need and
which would be a third of the peak memory of a small training.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Unpack, get_args

from tokenmill.base import logs
from tokenmill.base.durable import scratch_folder, sweep_leftovers
from tokenmill.base.words import parse_size
from tokenmill.errors import ConfigError, InputError, TokenmillError
from tokenmill.pipeline.output import Progress, explain_faults, read_budget
from tokenmill.settings.options import TrainOptions
from tokenmill.settings.resolve import Resolved, from_options
from tokenmill.settings.schema import JobConfig, SaveFormat
from tokenmill.tokenizer.recipe import check_special_string, make_pre_tokenizer
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Corpus, Counted, Counting, count_all, open_corpus
from tokenmill.training.merging import (
    Checkpoint,
    Merged,
    build_minbpe_recipe,
    build_recipe,
    keep_first_tokens,
    merge,
    save_all,
    summarise,
)

# True to show progress, or a function of (stage, done, total) to call instead.
ProgressChoice = bool | Callable[[str, int, int | None], None] | None

logger = logging.getLogger("tokenmill.train")
# Counts that took longer than this are saved, so that a resumed run need not repeat them.
KEEP_COUNTS_SECONDS = 20.0


class Trained(NamedTuple):
    """The tokenizer and the figures of its training."""

    tokenizer: Tokenizer
    summary: dict[str, Any]


def train(
    files: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    vocab_size: int | None = None,
    *,
    config: str | Path | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[TrainOptions],
) -> Tokenizer:
    """Train a byte-level BPE tokenizer on files. The result does not depend on the machine.

    >>> import tokenmill
    >>> from pathlib import Path
    >>> _ = Path("corpus.txt").write_text("low lower lowest " * 9)
    >>> tokenizer = tokenmill.train("corpus.txt", 261, progress=False)
    >>> tokenizer.decode(tokenizer.encode("a lower"))
    'a lower'

    Args:
        files: A path, a glob, a URL or a list of them. Default: the inputs of `config`, or `counts` alone.
        vocab_size: Total number of tokens, with the 256 bytes and the special tokens. Default: 32,000.
        config: A YAML file of settings; arguments given here take precedence.
        progress: True to show progress, or a function of (stage, done, total) to call instead.
        options: Any setting of docs/configuration.md, such as `pattern="cl100k"`, `special_tokens=[…]`,
            `output="my-tokenizer"`, `counts="en.parquet:2.0"` or `tie_break="lexicographic"`.

    Returns:
        The tokenizer. With `output`, it is also saved, with its `training.json`.

    Raises:
        ConfigError: A setting is unknown, of a wrong type, or contradicts another.
        InputError: There is nothing to train on, or a record cannot be read and `on_error` is "fail".
        ResumeError: `resume` was requested, and `output` holds another training.
        InterruptedJobError: A disk is full; the same call with `resume=True` continues.
    """
    named = (files,) if isinstance(files, str | PathLike) else files
    is_paths = isinstance(named, list | tuple) and all(isinstance(each, str | PathLike) for each in named)
    if named is not None and not is_paths:
        raise ConfigError("train takes files; give texts and other data in memory to train_from_iterator")
    resolved = from_options(config, job="train", inputs=named, vocab_size=vocab_size, **options)
    return run(resolved, progress=progress).tokenizer


def train_from_iterator(
    texts: Any,
    vocab_size: int | None = None,
    *,
    config: str | Path | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[TrainOptions],
) -> Tokenizer:
    """Train a byte-level BPE tokenizer on data in memory.

    >>> import tokenmill
    >>> tokenizer = tokenmill.train_from_iterator(["low lower lowest"] * 9, 261, progress=False)
    >>> [tokenizer.token_bytes(token) for token in tokenizer.encode("a lower")]
    [b'a', b' lowe', b'r']

    Args:
        texts: A list or an iterator of texts or records, an Arrow array or table, a Hugging Face dataset.
        vocab_size: As for `train`.
        config: As for `train`.
        progress: As for `train`.
        options: As for `train`.

    Returns:
        The tokenizer, as `train` returns it.

    Raises:
        ConfigError: A setting is unknown, of a wrong type, or contradicts another.
        InputError: There is no text, or a record cannot be read and `on_error` is "fail".
    """
    if isinstance(texts, str | bytes):
        raise ConfigError("texts is a single text; give a list of texts, or files to train")
    resolved = from_options(config, job="train", vocab_size=vocab_size, **options)
    data = iter(texts) if isinstance(texts, list | tuple) else texts
    return run(resolved, data, progress=progress).tokenizer


def run(resolved: Resolved, inputs: Any = None, *, progress: ProgressChoice = None) -> Trained:
    """Count, merge and save. `inputs` is data in memory instead of the files of the settings."""
    config = resolved.config
    logs.configure(config.execution.verbose_level)
    for warning in resolved.warnings:
        logger.warning("%s", warning)
    named = inputs if inputs is not None else list(config.source.inputs)
    with open_corpus(named, config.source, config.output.path) as corpus:
        if not corpus.files and not config.source.counts:
            raise InputError("nothing to train on; name input files, texts or counts")
        place = config.output.path or config.execution.spill_dir or tempfile.gettempdir()
        with explain_faults(place):
            return _Training(config, corpus, progress).run()


def _import_counts_file() -> Any:
    from tokenmill.training import counts_file

    return counts_file


class _Training:
    """One training: settings, corpus, checkpoint and progress."""

    def __init__(self, config: JobConfig, corpus: Corpus, progress: ProgressChoice) -> None:
        self.config, self.options, self.execution = config, config.training, config.execution
        self.corpus = corpus
        self.output = None if config.output.path is None else Path(config.output.path)
        if self.execution.resume and self.output is None:
            raise ConfigError(
                "resume needs an output directory, where the interrupted training left its checkpoint"
            )
        self.job = {
            "options": self.options.to_dict() | {"pattern": make_pre_tokenizer(self.options.pattern)},
            "inputs": corpus.identify(),
            "counts": list(config.source.counts),
        }
        for token in self.options.special_tokens:
            check_special_string(token)
        self.sizes = self._list_sizes()
        self.checkpoint = Checkpoint(self.output, self.job)
        self.progress = Progress(
            self.output,
            show=self.execution.show_progress if progress is None else progress is not False,
            call=progress if callable(progress) else None,
            bytes_total=corpus.total_bytes,
            units_total=self.options.model_tokens - 256,
        )
        for note in corpus.notes if progress is not False else ():
            logger.info("%s", note)

    def run(self) -> Trained:
        """Run the training from the first text to the report."""
        started = time.perf_counter()
        if self.output is not None:
            for folder in (self.output, *(self.output / str(size) for size in self.sizes)):
                sweep_leftovers(folder)
        self.checkpoint.begin(resume=self.execution.resume)
        spill_dir = Path(self.execution.spill_dir or self.output or tempfile.gettempdir())
        with self.progress, scratch_folder(spill_dir, "counts") as scratch:
            counted = self._count(scratch)
            merged = self._merge(counted)
            tokenizer = Tokenizer(build_recipe(merged, self.options, str(self.output or "trained")))
            seconds = time.perf_counter() - started
            summary = summarise(self.options, counted, merged, tokenizer, seconds)
            self._save(tokenizer, merged, counted, summary)
        return Trained(tokenizer, summary)

    def _count(self, scratch: Path) -> Counted:
        corpus, source, saved = self.corpus, self.config.source, self.checkpoint.counts
        threads, budget = read_budget(self.execution)
        counting = Counting(self.options, threads=threads, memory_budget=budget, spill_dir=str(scratch))
        if saved is not None and saved.is_file():  # begin removes the counts of other runs
            _import_counts_file().add_saved(counting, self.options, [saved])
            return counting.finish()
        if source.counts:
            _import_counts_file().add_saved(counting, self.options, source.counts)
        counting.inputs.extend(corpus.identify())
        with self.progress.stage("Counting", corpus.total_bytes):
            count_all(counting, corpus, threads, self.progress.count)
        counted = counting.finish()
        if not counted.unique:
            raise InputError(
                f"there is no text to train on: {counted.documents} documents, {counted.bytes} bytes. Check "
                "the inputs and the text field (`text_field`)"
            )
        if counted.refused:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in counted.refused.items())
            logger.warning("Records refused: %s (%s)", f"{sum(counted.refused.values()):,}", reasons)
        if self.config.output.save_counts is not None:
            _import_counts_file().save_counts(counted, self.options, self.config.output.save_counts)
        if saved is not None and counted.seconds > KEEP_COUNTS_SECONDS:
            self.checkpoint.save([])
            _import_counts_file().save_counts(counted, self.options, saved)
        return counted

    def _merge(self, counted: Counted) -> Merged:
        wanted, process = self.options.model_tokens - 256, None
        if self.execution.verbose:
            import psutil

            process = psutil.Process()
            process.cpu_percent()  # begin to measure

        def advance(merges: int) -> None:
            self.progress.count(units_done=merges - self.progress.state["units_done"])
            if process is not None:
                use = process.memory_info().rss / 1e6, process.cpu_percent()
                logger.info("merge %d of %d: memory %.1f MB, CPU %.1f %%", merges, wanted, *use)

        with self.progress.stage("Merging", wanted, "merges"):
            return merge(
                counted,
                self.options,
                checkpoint=self.checkpoint,
                checkpoint_every=self.execution.checkpoint_every,
                tell=advance,
            )

    def _save(self, tokenizer: Tokenizer, merged: Merged, counted: Counted, summary: dict[str, Any]) -> None:
        if self.output is None:
            return
        formats = [form for form in get_args(SaveFormat) if {form, "all"} & {*self.config.output.save_as}]
        minbpe = partial(build_minbpe_recipe, merged, self.options, str(self.output))
        body = {**summary, "job": self.job}
        reported = self.config.output.report and "hf" in formats
        if reported:
            from tokenmill.report.training import measure_training, write_training_report

            body["report"] = measure_training(tokenizer, merged, counted, self.sizes)
        save_all(tokenizer, self.output, formats, body, minbpe)
        for size in self.sizes:
            smaller = Tokenizer(keep_first_tokens(tokenizer.recipe, size))
            smaller.save(self.output / str(size))
        self.checkpoint.remove()
        if reported:
            try:
                write_training_report(self.output, tokenizer)
            except (OSError, TokenmillError) as error:
                logger.warning("no report was written: %s", error)

    def _list_sizes(self) -> list[int]:
        """Return the additional smaller vocabulary sizes. Raise `ConfigError` for an invalid one."""
        ladder, least = self.config.output.ladder or "", 256 + len(self.options.special_tokens)
        try:
            sizes = [parse_size(size) for size in ladder.split(",") if size]
        except ValueError:
            raise ConfigError(f"ladder is {ladder!r}; expected sizes such as 16k,32k") from None
        for size in sizes:
            if not least <= size < self.options.vocab_size:
                raise ConfigError(
                    f"ladder has {size:,}; expected {least:,} or more, and less than vocab_size "
                    f"({self.options.vocab_size:,})"
                )
        return sizes
