"""Turn one unit into one receipt: read -> filter -> encode -> write.

One thread reads and filters ahead, several encode a block each, and the unit's own thread writes. No step
loops over documents in Python, and only a few blocks are in flight.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.texts import is_learned, prefetch, strip_marks
from tokenmill.datasets.documents import Cover, Part, store_columns
from tokenmill.datasets.formats.files import Items, ShardShape
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import Target
from tokenmill.datasets.ledger.plan import Unit
from tokenmill.datasets.ledger.receipt import Account, Receipt, ShardEntry, save_receipt
from tokenmill.datasets.ledger.selection import write_hashes
from tokenmill.datasets.packing import RowPacker
from tokenmill.pipeline.encode import Encoded, Kept, encode_kept, keep_blocks
from tokenmill.pipeline.executors import Control
from tokenmill.pipeline.job import Job
from tokenmill.sources import read_blocks
from tokenmill.sources.fields import make_fields
from tokenmill.sources.model import Block, InputFile, Reject, explain_refusal
from tokenmill.sources.read import is_small, read_together
from tokenmill.sources.records import describe

logger = logging.getLogger("tokenmill.prepare")
T = TypeVar("T")
R = TypeVar("R")
# The parts of messages that the template of a job leaves out, reported once per process.
_reported: set[tuple[Path, str]] = set()
# Maximum number of rejected records listed in a receipt.
MAX_PLACES = 20
# Maximum number of small files read in one call.
TOGETHER = 1024


@dataclass(frozen=True, slots=True)
class UnitTask:
    """A unit, the inputs of its parts, and a mask of its documents that repeat earlier ones."""

    unit: Unit
    inputs: tuple[InputFile, ...]
    duplicates: NDArray[np.bool_] | None = None


def make_task(unit: Unit, inputs: Any, duplicates: NDArray[np.bool_] | None = None) -> UnitTask:
    """Return the task of a unit of a plan, with its own inputs only."""
    return UnitTask(unit, tuple(inputs[part.input] for part in unit.parts), duplicates)


def run_unit(job: Job, task: UnitTask, control: Control) -> Receipt:
    """Process one unit from its first byte to its receipt. An error leaves nothing published."""
    control.check()
    unit = task.unit
    options = {"provenance": job.config.output.provenance, "marked": job.chat is not None}
    account, records = Account(), [0] * len(unit.parts)
    rejects: list[Reject] = []
    with ShardBuilder(job.target, job.root, unit, **options) as builder:
        blocks = prefetch(keep_blocks(job, read_task(job, task, control), task.duplicates), depth=1)
        for kept, batches in map_in_order(partial(encode_kept, job, control), blocks, control.threads):
            account.add(kept.account)
            if isinstance(kept.part, int):
                records[kept.part] += kept.rows_read
            else:
                for part in kept.part.tolist():
                    records[part] += 1
            rejects += kept.rejects[: MAX_PLACES - len(rejects)]
            rejects += _name_faults(job, task, kept, MAX_PLACES - len(rejects))
            for encoded in batches:
                control.report(documents=encoded.documents, tokens=len(encoded.ids))
                builder.add(encoded)
            control.report(bytes=kept.account.input_bytes)
            del batches, encoded
        shard = builder.close()
    account.add(builder.account)
    account.check()
    receipt = Receipt(unit.ordinal, shard, account, tuple(rejects), tuple(records))
    if job.remote is not None:
        receipt = job.remote.publish(job.root, receipt)
    save_receipt(job.root, receipt)
    return receipt


def hash_unit(job: Job, task: UnitTask, control: Control) -> None:
    """Write the hashes of a unit's documents, the first pass of a job with `deduplicate`."""
    blocks = prefetch(read_task(job, task, control), depth=1)
    texts = (block.texts.filter(job.filters.sift(block).kept) for _, block in blocks)
    write_hashes(job.root, task.unit.name, texts)


def _name_faults(job: Job, task: UnitTask, kept: Kept, most: int) -> list[Reject]:
    """Return the invalid conversations of a block with file and row. Raise the first if set to `fail`."""
    if not kept.faults and not kept.left_out:
        return []
    nth = int(kept.part)
    part, file, named = task.unit.parts[nth], task.inputs[nth], []
    for name, row in kept.left_out.items():
        if (job.root, name) not in _reported:
            _reported.add((job.root, name))
            remedy = "give a template that writes it, with `chat_template`"
            if name == "reasoning":
                remedy += ", or, if it writes that of the last answer only, `one_sample_per_answer=True`"
            logger.warning(
                "%s: the chat template leaves out the %s of a message; such parts are counted as left_out in "
                "the account. To train on them %s.",
                describe(file, part.range, row),
                name,
                remedy,
            )
    for row, error in list(kept.faults.items())[: max(most, 1)]:
        reject = Reject(error.reason, describe(file, part.range, row), error.detail)
        if job.config.source.on_error == "fail":
            raise explain_refusal(reject)
        named.append(reject)
    return named[: max(most, 0)]


def read_task(job: Job, task: UnitTask, control: Control) -> Iterator[tuple[Part, Block]]:
    """Yield the blocks of a unit, each with the index of its part, or one index for each document."""
    alone = job.chat is not None or bool(make_fields(job.config.source, job.filters.columns).paths)
    nth, count = 0, len(task.unit.parts)
    while nth < count:
        # The small files from this part on that fit in one block.
        stop, held = nth, 0
        while not alone and stop < min(count, nth + TOGETHER):
            file = task.inputs[stop]
            held += file.size
            if held > control.block_bytes or not is_small(file, job.config.source):
                break
            stop += 1
        if stop - nth > 1:
            yield from _read_small_files(job, task, control, nth, stop)
            nth = stop
        else:
            yield from _read_part(job, task, control, nth)
            nth += 1


def _read_small_files(
    job: Job, task: UnitTask, control: Control, first: int, stop: int
) -> Iterator[tuple[Part, Block]]:
    """Yield small files as one block. A file that needs the full reader is yielded separately, in order."""
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


def map_in_order(work: Callable[[T], R], items: Iterator[T], workers: int) -> Iterator[R]:
    """Yield `work(item)` in the order of the items, with up to `workers` running and one more waiting."""
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="tokenmill-encode") as pool:
        try:
            for item in items:
                running.append(pool.submit(work, item))
                if len(running) > workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
            getattr(items, "close", int)()


class ShardBuilder:
    """Write documents or, in formats that store rows, rows through a view. `account` has the counts."""

    def __init__(self, target: Target, root: Path, unit: Unit, *, provenance: bool, marked: bool) -> None:
        """Open the writers of the shard. `marked` ids carry their loss mask in their highest bit."""
        self.documents = 0
        self._unit = unit
        packing, length = target.packing, target.row_length
        shape = ShardShape(root, unit.name, target.dtype, length, packing.columns)
        self._columns = packing.columns
        self._marked = marked
        self._packer: RowPacker | None = None
        if packing.view is not None and length is not None:
            self._packer = RowPacker(packing.view, packing.pad_id or 0, packing.columns, marked=marked)
        self.account = Account() if self._packer is None else self._packer.account
        self._writer = find_format(target.format).writer(shape)
        self._provenance = None
        if provenance:
            # Here, since it imports Arrow.
            from tokenmill.datasets.ledger.provenance import ProvenanceWriter

            self._provenance = ProvenanceWriter(shape)

    def add(self, encoded: Encoded) -> None:
        """Write documents, or pack them into rows."""
        ids, offsets, first = np.asarray(encoded.ids), np.asarray(encoded.offsets), self.documents
        if self._provenance is not None:
            self._provenance.write(encoded.origins, np.diff(offsets))
        if not encoded.documents:
            return
        self.documents += encoded.documents
        if self._packer is not None:
            for items in self._packer.push(ids, offsets):
                self._writer.write(items)
            return
        self.account.documents_written += encoded.documents
        self.account.tokens_written += len(ids)
        loss_mask = None
        if self._marked:
            loss_mask, ids = is_learned(ids), strip_marks(ids)
            self.account.learned_written += int(loss_mask.sum())
        numbers = np.arange(first, self.documents)
        cover = Cover(ids, numbers, offsets[:-1], np.diff(offsets), loss_mask)
        self._writer.write(Items(ids, offsets, store_columns(self._columns, cover)))

    def close(self) -> ShardEntry:
        """Write the remaining rows and publish every file of the shard."""
        for items in self._packer.finish() if self._packer is not None else ():
            self._writer.write(items)
        rows = 0 if self._packer is None else self._packer.rows
        files = self._writer.close() + (self._provenance.close() if self._provenance is not None else [])
        unit, tokens = self._unit, self.account.tokens_stored
        return ShardEntry(unit.name, unit.id, self.documents, tokens, rows, tuple(files))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Remove the unpublished files."""
        self._writer.discard()
        if self._provenance is not None:
            self._provenance.discard()
