"""Counting as map and reduce over files, for executors that share nothing but a file system.

Map: a range of an input becomes counts files, one for each hash partition. Reduce: all files of a partition
become one. Sums do not depend on their order, so the merges are those of one process.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError
from tokenmill.pipeline.executors import Control, check_inputs
from tokenmill.sources import cut_ranges, read_blocks
from tokenmill.training.counting import Counting, count_all
from tokenmill.training.counts_file import add_saved, is_in_partition, save_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tokenmill.pipeline.executors import Executor
    from tokenmill.settings.schema import SourceConfig, TrainingConfig
    from tokenmill.sources import Block, InputFile, Range
    from tokenmill.training.counting import Corpus


@dataclass(frozen=True, slots=True)
class CountJob:
    """What all tasks share; every node sees `folder`."""

    options: TrainingConfig
    source: SourceConfig
    folder: str
    partitions: int
    memory_budget: int


@dataclass(frozen=True, slots=True)
class CountTask:
    """One range of one input."""

    name: str
    file: InputFile
    range: Range

    @property
    def source(self) -> str:
        """Return what the task reads."""
        return self.file.url


@dataclass(frozen=True, slots=True)
class ReduceTask:
    """All files of one partition."""

    partition: int
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name within the job."""
        return f"partition-{self.partition}"

    @property
    def source(self) -> str:
        """Return what the task reads."""
        return f"{len(self.parts)} counts files"


def name_part(job: CountJob, name: str, partition: int) -> Path:
    """Return the path of the counts of one range and partition."""
    return Path(job.folder) / f"{name}-{partition}.parquet"


def count_part(job: CountJob, task: CountTask, control: Any) -> str:
    """Map: count one range; its files are complete or absent, so a task that died is simply run again."""
    with tempfile.TemporaryDirectory(prefix="tokenmill-count-") as spill:
        counting = Counting(
            job.options, threads=control.threads, memory_budget=job.memory_budget, spill_dir=spill
        )
        blocks = read_blocks(task.file, task.range, job.source, parts=counting.takes_parts)
        count_all(counting, _check_each(blocks, control))
        counted = counting.finish()
        for partition in range(job.partitions):
            path = name_part(job, task.name, partition)
            chosen = partial(is_in_partition, partition=partition, partitions=job.partitions)
            # Documents and bytes are of the range, not of a partition: they are saved once.
            save_counts(counted, job.options, path, chosen, with_totals=partition == 0)
        control.report(bytes=counted.bytes, documents=counted.documents)
    return task.name


def reduce_part(job: CountJob, task: ReduceTask, control: Any) -> str:
    """Reduce: one counts file of one partition, from those of all ranges."""
    with tempfile.TemporaryDirectory(prefix="tokenmill-count-") as spill:
        counting = Counting(
            job.options, threads=control.threads, memory_budget=job.memory_budget, spill_dir=spill
        )
        add_saved(counting, job.options, [name_part(job, name, task.partition) for name in task.parts])
        counting.inputs.clear()
        path = Path(job.folder) / f"sum-{task.partition}.parquet"
        save_counts(counting.finish(), job.options, path)
    return str(path)


def _check_each(blocks: Iterator[Block], control: Any) -> Iterator[Block]:
    for block in blocks:
        control.check()
        yield block


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
        context = Control(report=lambda bytes=0, documents=0, **_: advance(bytes, documents=documents))  # noqa: A006
        names = sorted(done.result for done in executor.run(count_part, job, tasks, len(tasks), context))
        reduces = [ReduceTask(partition, tuple(names)) for partition in range(PARTITIONS)]
        ended = executor.run(reduce_part, job, reduces, len(reduces), Control())
        sums = sorted(done.result for done in ended)
        add_saved(counting, options, sums)
        counting.inputs.clear()
        _sample(counting, corpus)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sample(counting: Counting, corpus: Corpus) -> None:
    """Sample the first block for the summary, since the tasks send no texts."""
    if corpus.source is None:
        return
    first = corpus.files[0]
    for block in read_blocks(first, cut_ranges(first, PART_BYTES)[0], corpus.source):
        counting.offer(block.texts)
        break
