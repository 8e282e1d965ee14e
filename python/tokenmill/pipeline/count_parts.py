"""Count on executors that share only a file system: each task counts some ranges into a file.

This process sums the files. Sums do not depend on the order, so the merges are the same as in one process.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.pipeline.executors import Control, Executor, check_inputs
from tokenmill.settings.schema import SourceConfig, TrainingConfig
from tokenmill.sources import Block, InputFile, Range, cut_ranges, read_blocks
from tokenmill.training.counting import Corpus, Counting, count_all
from tokenmill.training.counts_file import add_saved, save_counts

PART_BYTES = 64 << 20
# Summing more files here would take longer than counting them on a cluster.
MOST_TASKS = 512
TASK_MEMORY = 256 << 20


@dataclass(frozen=True, slots=True)
class CountTask:
    """Some ranges of the inputs, and the file for their counts on a shared file system."""

    name: str
    path: Path
    parts: list[tuple[InputFile, Range]]

    @property
    def source(self) -> str:
        """Return a description of the inputs of the task, for messages."""
        more = f" and {len(self.parts) - 1} more ranges" if len(self.parts) > 1 else ""
        return f"{self.parts[0][0].url}{more}"


def count_part(job: tuple[TrainingConfig, SourceConfig], task: CountTask, control: Any) -> None:
    """Count one task. Its file is published atomically, so a failed task can be retried."""
    options, source = job
    with tempfile.TemporaryDirectory(prefix="tokenmill-count-") as spill:
        counting = Counting(options, threads=control.threads, memory_budget=TASK_MEMORY, spill_dir=spill)

        def read() -> Iterator[Block]:
            for file, part in task.parts:
                for block in read_blocks(file, part, source, parts=counting.takes_parts):
                    control.check()
                    yield block

        count_all(counting, read())
        counted = counting.finish()
        save_counts(counted, options, task.path)
    control.report(bytes=counted.bytes, documents=counted.documents)


def count_by_parts(
    counting: Counting,
    options: TrainingConfig,
    corpus: Corpus,
    executor: Executor,
    output: Path | None,
    advance: Callable[..., None],
) -> None:
    """Add the counts of every file of a corpus. Remove temporary files at the end."""
    check_inputs(executor, corpus.files)
    if output is None or not corpus.files:
        raise ConfigError(
            "an executor other than local needs input files and an output directory that all nodes can see"
        )
    folder = (Path(output) / ".training" / "parts").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    cuts = [(file, part) for file in corpus.files for part in cut_ranges(file, PART_BYTES)]
    count = min(len(cuts), MOST_TASKS)
    tasks = [CountTask(f"{n:03d}", folder / f"{n:03d}.parquet", cuts[n::count]) for n in range(count)]
    inputs = list(counting.inputs)
    try:
        context = Control(report=lambda bytes=0, documents=0, **_: advance(bytes, documents=documents))  # noqa: A006
        for done in executor.run(count_part, (options, corpus.source), tasks, count, context):
            add_saved(counting, options, [done.task.path])
            done.task.path.unlink()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    counting.inputs[:] = inputs
    # A sample for the summary, since the tasks send no texts.
    first = next(read_blocks(*cuts[0], corpus.source), None)
    if first is not None:
        counting.offer(first.texts)
