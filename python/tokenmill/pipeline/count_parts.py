"""Counts a corpus through an executor: map over ranges, reduce over hash partitions, one count at the end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.errors import ConfigError
from tokenmill.pipeline.executors.base import RunContext
from tokenmill.pipeline.executors.choose import check_inputs
from tokenmill.sources import cut_ranges, read_blocks
from tokenmill.training.counts_file import add_saved
from tokenmill.training.parts import CountJob, CountTask, ReduceTask, count_part, reduce_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.pipeline.executors.base import Executor
    from tokenmill.settings.schema import TrainingConfig
    from tokenmill.training.counting import Counting
    from tokenmill.training.inputs import Corpus

PART_BYTES = 64 << 20
PARTITIONS = 8
TASK_MEMORY = 256 << 20


def count_by_parts(
    counting: Counting,
    options: TrainingConfig,
    corpus: Corpus,
    executor: Executor,
    output: Path | None,
    advance: Callable[..., None],
) -> None:
    """Add the counts of every file of a corpus; temporary files are removed at the end."""
    check_inputs(executor, corpus.files)
    if output is None or not corpus.files:
        raise ConfigError(
            "an executor other than local needs input files and an output directory that all nodes can see"
        )
    folder = Path(output) / ".training" / "parts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    job = CountJob(options, corpus.source, str(folder.resolve()), PARTITIONS, TASK_MEMORY)
    cuts = [(file, part) for file in corpus.files for part in cut_ranges(file, PART_BYTES)]
    tasks = [CountTask(f"{number:06d}", file, part) for number, (file, part) in enumerate(cuts)]
    try:
        context = RunContext(report=lambda bytes=0, documents=0, **_: advance(bytes, documents=documents))  # noqa: A006
        names = sorted(done.result for done in executor.run(count_part, job, tasks, len(tasks), context))
        reduces = [ReduceTask(partition, tuple(names)) for partition in range(PARTITIONS)]
        ended = executor.run(reduce_part, job, reduces, len(reduces), RunContext())
        sums = sorted(done.result for done in ended)
        add_saved(counting, options, sums)
        counting.inputs.clear()
        _sample(counting, corpus)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sample(counting: Counting, corpus: Corpus) -> None:
    """Some texts for the summary's bytes per token: the tasks send none, so the first block is read here."""
    if corpus.source is None:
        return
    first = corpus.files[0]
    for block in read_blocks(first, cut_ranges(first, PART_BYTES)[0], corpus.source):
        counting.offer(block.texts)
        break
