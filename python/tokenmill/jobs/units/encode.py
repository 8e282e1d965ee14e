"""A block of texts to framed ids: filters, encoding in batches, BOS and EOS, token filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.texts import Texts
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.origins import Origins
from tokenmill.datasets.packing.packer import frame_documents, select_documents
from tokenmill.jobs.units.filters import token_filters
from tokenmill.jobs.units.huge import HUGE, encode_huge, encodes_in_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.jobs.units.control import Control
    from tokenmill.jobs.units.huge import Framed
    from tokenmill.jobs.units.job import Job
    from tokenmill.sources.model import Block

    # Views of the core's memory, or arrays where something was made of them.
    Ids = memoryview | NDArray[Any]
    Offsets = memoryview | NDArray[np.int64]

# A block of this many times the usual size is worth the threads of the whole unit.
MANY_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class Encoded:
    """Framed documents of one batch. The first batch of a block carries the block, for what it counted."""

    ids: Ids
    offsets: Offsets
    origins: Origins
    part: int
    account: Account = field(default_factory=Account)
    block: Block | None = None

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """How many ids they have together."""
        return int(self.offsets[-1]) - int(self.offsets[0])


@dataclass(slots=True)
class Kept:
    """The documents of a block that passed the text filters, on their way to be encoded."""

    texts: Texts
    origins: Origins
    part: int
    account: Account
    block: Block

    def take_texts(self) -> Texts:
        """The texts, which are then held by the caller alone: a huge one goes as soon as it is encoded."""
        texts, self.texts = self.texts, Texts()
        return texts


def keep_blocks(
    job: Job, blocks: Iterator[tuple[int, Block]], duplicates: NDArray[np.bool_] | None
) -> Iterator[Kept]:
    """Every block of a unit, given with the number of its part, after the text filters.

    `duplicates` says of each document that passes them whether it repeats an earlier one.
    """
    passed = 0
    for part, block in blocks:
        account = Account()
        account.text_bytes += block.texts.nbytes
        texts, origins, candidates = _kept(job, block, part, duplicates, passed=passed, account=account)
        passed += candidates
        kept = Kept(texts, origins, part, account, _without_texts(block))
        del block, texts
        yield kept


def encode_kept(job: Job, control: Control, kept: Kept) -> list[Encoded]:
    """The batches of a block, the first with what the block counted."""
    texts, origins, account = kept.take_texts(), kept.origins, kept.account
    carried: Block | None = kept.block
    account.special_strings += job.special_strings.count(texts.offsets, texts.data)
    if len(texts) == 1 and texts.nbytes >= HUGE and encodes_in_parts(job):
        data = texts.data[texts.offsets[0] : texts.offsets[-1]]
        del texts
        found = encode_huge(job, control, data, kept.block.release)
        return [_one_framed(job, found, kept)]
    count, made = len(texts), []
    threads = _threads_for(texts, control)
    size = control.batching.batch_size or max(1, count)
    for start in range(0, max(1, count), size):
        control.check()
        part = texts.slice(start, size)
        if start + size >= count:
            del texts
        of_part = origins.slice(start, len(part))
        ids, ends, chosen = _framed(job, part, threads, account)
        del part
        made.append(Encoded(ids, ends, of_part.take(chosen), kept.part, account, carried))
        account, carried = Account(), None
    return made


def _one_framed(job: Job, found: Framed, kept: Kept) -> Encoded:
    """A batch of one document that stands between its markers already, or of none if a filter drops it."""
    account, packing = kept.account, job.packing
    account.tokens_encoded += found.count
    chosen = _passing(job, np.array([found.count]), account)
    if not chosen[0]:
        none = np.empty(0, dtype=job.encoded_dtype)
        return Encoded(none, np.zeros(1, np.int64), kept.origins.take(chosen), kept.part, account, kept.block)
    ids = found.framed(packing.bos_id, packing.eos_id)
    account.tokens_added += len(ids) - found.count
    ends = np.array([0, len(ids)], np.int64)
    return Encoded(ids, ends, kept.origins, kept.part, account, kept.block)


def _threads_for(texts: Texts, control: Control) -> int:
    """One thread for a block among others; all of them for one that is far larger than a block."""
    return control.threads if texts.nbytes > MANY_BLOCKS * control.block_bytes else 1


def _without_texts(block: Block) -> Block:
    """What a block counted, without the texts that would stay in memory with it."""
    return type(block)(
        rows=block.rows,
        bytes_read=block.bytes_read,
        rows_read=block.rows_read,
        rejects=block.rejects,
        refused=block.refused,
        replaced=block.replaced,
        release=block.release,
    )


def _kept(
    job: Job,
    block: Block,
    part: int,
    duplicates: NDArray[np.bool_] | None,
    *,
    passed: int,
    account: Account,
) -> tuple[Any, Origins, int]:
    mask, reasons = job.filters.keep(block)
    candidates = len(block.texts) if mask is None else int(mask.sum())
    if duplicates is not None:
        again = duplicates[passed : passed + candidates]
        mask = np.ones(candidates, dtype=bool) if mask is None else mask
        mask[np.flatnonzero(mask)[again]] = False
        reasons["duplicate"] += int(again.sum())
    account.documents_dropped.update(+reasons)
    origins = Origins(part, block.rows, block.ids).take(mask)
    return block.texts.filter(mask), origins, candidates


def _framed(
    job: Job, texts: Texts, threads: int, account: Account
) -> tuple[Ids, Offsets, NDArray[np.bool_] | None]:
    """Framed ids of the documents that pass the token filters, their offsets, and which (None for all)."""
    packing, special = job.packing, job.config.tokenizer.special
    if job.frames_at_once:
        frame = packing.bos_id, packing.eos_id
        framed = job.encoder.engine.encode_framed(texts, frame, special, threads=threads)
        added = len(texts) * sum(marker is not None for marker in frame)
        account.tokens_encoded += len(framed[0]) - added
        account.tokens_added += added
        return *framed, None
    batch = job.encoder.encode_batch(texts, special=special, threads=threads)
    ids, offsets = batch.ids, batch.offsets
    account.tokens_encoded += len(ids)
    kept = _passing(job, np.diff(offsets), account)
    ids, offsets = select_documents(ids, offsets, kept)
    before = len(ids)
    ids, offsets = frame_documents(ids, offsets, packing.bos_id, packing.eos_id, job.encoded_dtype)
    account.tokens_added += len(ids) - before
    return ids, offsets, kept


def _passing(job: Job, lengths: NDArray[np.int64], account: Account) -> NDArray[np.bool_]:
    """Which documents of so many tokens pass the token filters; the others are counted."""
    limits = job.config.filter
    if limits.min_tokens is None and limits.max_tokens is None:
        return np.ones(len(lengths), dtype=bool)
    kept, documents, tokens = token_filters(limits, lengths)
    account.documents_dropped.update(documents)
    account.tokens_dropped.update(tokens)
    return kept
