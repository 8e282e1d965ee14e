"""Counting as map and reduce over files, for executors that share nothing but a file system.

Map: a range of an input becomes counts files, one for each hash partition. Reduce: all files of a partition
become one. Sums do not depend on their order, so the merges are those of one process.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.sources import read_blocks
from tokenmill.training.counting import Counting, count_all
from tokenmill.training.counts_file import add_saved, save_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.base.texts import Texts
    from tokenmill.settings.schema import SourceConfig, TrainingConfig
    from tokenmill.sources import Block, InputFile, Range


@dataclass(frozen=True, slots=True)
class CountJob:
    """What all tasks of a counting share; `folder` is seen by every node."""

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
        """What it reads."""
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
        """What it reads."""
        return f"{len(self.parts)} counts files"


def name_part(job: CountJob, name: str, partition: int) -> Path:
    """Where the counts of one range and partition are."""
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
            chosen = partial(_is_in_partition, partition=partition, partitions=job.partitions)
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


def _is_in_partition(pieces: Texts, partition: int, partitions: int) -> np.ndarray[Any, Any]:
    hashes = _core.hash_texts(pieces.data, pieces.offsets)[::2]
    return np.asarray(hashes % np.uint64(partitions) == np.uint64(partition))
