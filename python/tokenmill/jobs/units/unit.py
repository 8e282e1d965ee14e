"""One unit to one receipt: read -> filter -> encode -> frame -> pack -> write.

One thread reads and filters ahead, several encode a block each, the unit's own packs and writes. No step
looks at a single document in Python, and at most a few blocks are in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from tokenmill.base.prefetch import prefetch
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.receipt import Receipt, ShardEntry, save_receipt
from tokenmill.jobs.units.encode import encode_kept, keep_blocks
from tokenmill.jobs.units.ordered import ordered
from tokenmill.jobs.units.shards import ShardBuilder
from tokenmill.sources import read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.plan import Unit
    from tokenmill.jobs.units.control import Control
    from tokenmill.jobs.units.encode import Encoded
    from tokenmill.jobs.units.job import Job
    from tokenmill.sources.model import Block, InputFile, Reject

MAX_PLACES = 20


@dataclass(frozen=True, slots=True)
class Task:
    """A unit with the inputs of its parts, and which of its documents repeat earlier ones."""

    unit: Unit
    inputs: tuple[InputFile, ...]
    duplicates: NDArray[np.bool_] | None = None

    @property
    def name(self) -> str:
        """What an executor calls it."""
        return self.unit.name

    @property
    def source(self) -> str:
        """What it reads first, for words to people."""
        return self.inputs[0].url


@dataclass
class _Tally:
    """What a unit has read so far."""

    account: Account = field(default_factory=Account)
    places: list[Reject] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def add(self, encoded: Encoded) -> None:
        """Count one batch, and with the first of a block what came in and what was refused or mended."""
        self.account.add(encoded.account)
        if encoded.block is not None:
            self._block(encoded.part, encoded.block)

    def _block(self, part: int, block: Block) -> None:
        account = self.account
        account.input_bytes += block.bytes_read
        account.documents_read += len(block)
        account.rejected.update(block.refused)
        account.replaced.update(block.replaced)
        self.records[part] += block.rows_read
        room = MAX_PLACES - len(self.places)
        self.places += block.rejects[:room]


def run_unit(job: Job, task: Task, control: Control) -> Receipt:
    """Do one unit from its first byte to its receipt; whatever ends it before leaves nothing that counts."""
    control.check()
    builder = None
    try:
        builder = ShardBuilder(job, task.unit.name, control)
        tally = _Tally(records=[0] * len(task.unit.parts))
        kept = prefetch(keep_blocks(job, read_task(job, task, control), task.duplicates), depth=1)
        batches = ordered(partial(encode_kept, job, control), kept, control.threads)
        for encoded in chain.from_iterable(batches):
            tally.add(encoded)
            control.report(
                bytes=encoded.block.bytes_read if encoded.block is not None else 0,
                documents=encoded.documents,
                tokens=encoded.tokens,
            )
            builder.add(encoded)
        control.confirm()
        return _finish(job, task.unit, builder, tally)
    finally:
        if builder is not None:
            builder.discard()


def _finish(job: Job, unit: Unit, builder: ShardBuilder, tally: _Tally) -> Receipt:
    files = builder.close()
    account = tally.account
    account.add(builder.account)
    account.check()
    shard = ShardEntry(
        unit.name, unit.id, builder.documents, account.tokens_stored, builder.rows, tuple(files)
    )
    receipt = Receipt(unit.ordinal, shard, account, tuple(tally.places), tuple(tally.records))
    if job.remote is not None:
        receipt = job.remote.publish(job.root, receipt)
    save_receipt(job.root, receipt)
    return receipt


def read_task(job: Job, task: Task, control: Control) -> Iterator[tuple[int, Block]]:
    """The blocks of a unit, each with the number of its part."""
    for nth, part in enumerate(task.unit.parts):
        columns = job.filters.columns
        source = job.config.source
        file, size = task.inputs[nth], control.block_bytes
        for block in read_blocks(file, part.range, source, block_bytes=size, columns=columns):
            control.check()
            yield nth, block
            del block


def task_of(unit: Unit, inputs: Any, duplicates: NDArray[np.bool_] | None = None) -> Task:
    """The task of a unit of a plan, with its own inputs only."""
    return Task(unit, tuple(inputs[part.input] for part in unit.parts), duplicates)
