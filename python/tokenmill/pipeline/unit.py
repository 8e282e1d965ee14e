"""One unit to one receipt: read -> filter -> encode -> frame -> pack -> write.

One thread reads and filters ahead, several encode a block each, the unit's own packs and writes. No step
looks at a single document in Python, and at most a few blocks are in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tokenmill.base.prefetch import prefetch
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.receipt import Receipt, ShardEntry, save_receipt
from tokenmill.pipeline.encode import encode_kept, keep_blocks
from tokenmill.pipeline.ordered import map_in_order
from tokenmill.pipeline.reading import read_task
from tokenmill.pipeline.shards import ShardBuilder
from tokenmill.sources.faults import explain_refusal
from tokenmill.sources.model import Reject
from tokenmill.sources.records import name_record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.plan import Unit
    from tokenmill.pipeline.control import Control
    from tokenmill.pipeline.encode import Kept
    from tokenmill.pipeline.job import Job
    from tokenmill.sources.model import InputFile

MAX_PLACES = 20


@dataclass(frozen=True, slots=True)
class UnitTask:
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
        """What it reads first, for messages."""
        return self.inputs[0].url


def run_unit(job: Job, task: UnitTask, control: Control) -> Receipt:
    """Do one unit from its first byte to its receipt; whatever ends it early leaves nothing that counts."""
    control.check()
    unit, named = task.unit, job.config.output.provenance
    most, chats = job.config.packing.max_documents_per_row, job.chat is not None
    builder = ShardBuilder(
        job.target, job.root, unit.name, control.batching, provenance=named, most_documents=most, marked=chats
    )
    account, records = Account(), [0] * len(unit.parts)
    rejects: list[Reject] = []
    try:
        blocks = prefetch(keep_blocks(job, read_task(job, task, control), task.duplicates), depth=1)
        for kept, batches in map_in_order(partial(encode_kept, job, control), blocks, control.threads):
            account.add(kept.account)
            count_records(records, kept)
            rejects += kept.rejects[: MAX_PLACES - len(rejects)]
            rejects += name_faults(job, task, kept, MAX_PLACES - len(rejects))
            for encoded in batches:
                control.report(documents=encoded.documents, tokens=len(encoded.ids))
                builder.add(encoded)
            control.report(bytes=kept.account.input_bytes)
            del batches, encoded
        control.confirm()
        files = builder.close()
    finally:
        builder.discard()
    account.add(builder.account)
    account.check()
    shard = ShardEntry(
        unit.name, unit.id, builder.documents, account.tokens_stored, builder.rows, tuple(files)
    )
    receipt = Receipt(unit.ordinal, shard, account, tuple(rejects), tuple(records))
    if job.remote is not None:
        receipt = job.remote.publish(job.root, receipt)
    save_receipt(job.root, receipt)
    return receipt


def count_records(records: list[int], kept: Kept) -> None:
    """Add the records of a block to those of its part, or one to each of its parts."""
    if isinstance(kept.part, int):
        records[kept.part] += kept.rows_read
    else:
        for part in kept.part.tolist():
            records[part] += 1


def name_faults(job: Job, task: UnitTask, kept: Kept, most: int) -> list[Reject]:
    """The records of a block that are not conversations, with places; under `fail` the first is an error."""
    if not kept.faults:
        return []
    nth = int(kept.part)
    part, file, named = task.unit.parts[nth], task.inputs[nth], []
    for row, error in list(kept.faults.items())[: max(most, 1)]:
        reject = Reject(error.reason, name_record(file, part.range, row), error.detail)
        if job.config.source.on_error == "fail":
            raise explain_refusal(reject)
        named.append(reject)
    return named[: max(most, 0)]


def make_task(unit: Unit, inputs: Any, duplicates: NDArray[np.bool_] | None = None) -> UnitTask:
    """The task of a unit of a plan, with its own inputs only."""
    return UnitTask(unit, tuple(inputs[part.input] for part in unit.parts), duplicates)
