"""The first pass of a job that drops duplicates: read, filter by text, hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.base.prefetch import prefetch
from tokenmill.datasets.ledger.selection import HashWriter
from tokenmill.pipeline.reading import read_task

if TYPE_CHECKING:
    from tokenmill.pipeline.control import Control
    from tokenmill.pipeline.job import Job
    from tokenmill.pipeline.unit import UnitTask


def hash_unit(job: Job, task: UnitTask, control: Control) -> int:
    """Write the hashes of a unit's documents; returns how many there are."""
    writer = HashWriter(job.root, task.unit.name)
    try:
        for _, block in prefetch(read_task(job, task, control), depth=1):
            kept, _ = job.filters.keep(block)
            texts = block.texts.filter(kept)
            writer.write(texts.offsets, texts.data)
            control.report(bytes=block.bytes_read)
        writer.close()
        return writer.count
    finally:
        writer.discard()
