"""The blocks of a unit in order, each with the part or the parts of the unit that it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokenmill.sources import read_blocks
from tokenmill.sources.fields import make_fields
from tokenmill.sources.model import Block
from tokenmill.sources.small_files import is_small, read_together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.datasets.documents import Part
    from tokenmill.pipeline.control import Control
    from tokenmill.pipeline.job import Job
    from tokenmill.pipeline.unit import UnitTask

# Small files that are read in one call, at most.
TOGETHER = 1024


def read_task(job: Job, task: UnitTask, control: Control) -> Iterator[tuple[Part, Block]]:
    """The blocks of a unit, each with the number of its part, or of each of its documents."""
    source, columns = job.config.source, job.filters.columns
    alone = job.chat is not None or bool(make_fields(source, columns).paths)
    nth, count = 0, len(task.unit.parts)
    while nth < count:
        stop = nth if alone else _find_small_end(job, task, nth, control.block_bytes)
        if stop - nth > 1:
            yield from _read_small_files(job, task, control, nth, stop)
            nth = stop
        else:
            yield from _read_part(job, task, control, nth)
            nth += 1


def _find_small_end(job: Job, task: UnitTask, first: int, block_bytes: int) -> int:
    """The end of the small files from this part on that together fill no more than a block."""
    stop, held = first, 0
    while stop < min(len(task.inputs), first + TOGETHER):
        file = task.inputs[stop]
        held += file.size
        if held > block_bytes or not is_small(file, job.config.source):
            break
        stop += 1
    return stop


def _read_small_files(
    job: Job, task: UnitTask, control: Control, first: int, stop: int
) -> Iterator[tuple[Part, Block]]:
    """Small files together; one that is unusual is read on its own, in its place."""
    block, places = read_together(task.inputs[first:stop])
    control.check()
    done = 0
    for odd in np.setdiff1d(np.arange(stop - first), places):
        upto = int(np.searchsorted(places, odd))
        if upto > done:
            yield first + places[done:upto], _slice_block(block, done, upto)
        yield from _read_part(job, task, control, first + int(odd))
        done = upto
    if done < len(places):
        yield first + places[done:], _slice_block(block, done, len(places))


def _slice_block(block: Block, start: int, stop: int) -> Block:
    if stop - start == len(block):
        return block
    texts = block.texts.slice(start, stop - start)
    return Block(texts, block.rows[start:stop], bytes_read=texts.nbytes, rows_read=stop - start)


def _read_part(job: Job, task: UnitTask, control: Control, nth: int) -> Iterator[tuple[Part, Block]]:
    source, columns = job.config.source, job.filters.columns
    file, part, size = task.inputs[nth], task.unit.parts[nth], control.block_bytes
    for block in read_blocks(file, part.range, source, block_bytes=size, columns=columns):
        control.check()
        yield nth, block
        del block
