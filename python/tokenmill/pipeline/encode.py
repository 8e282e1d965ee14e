"""A block of texts to framed ids: text filters, encoding in batches, token filters, BOS and EOS."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmill.base.learned import is_learned
from tokenmill.base.texts import Texts
from tokenmill.datasets.documents import frame_documents, select_documents, splice
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.origins import Origins
from tokenmill.pipeline.chat import count_learned, encode_chats, frame_chats
from tokenmill.pipeline.filters import filter_tokens
from tokenmill.pipeline.long import cut_long

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.chat.conversation import RecordError
    from tokenmill.datasets.ledger.origins import Part
    from tokenmill.pipeline.chat import ChatWork
    from tokenmill.pipeline.control import Control
    from tokenmill.pipeline.job import Job
    from tokenmill.sources.model import Block, Known, Reject

    Mask = NDArray[np.bool_]
    # Views of the core's memory, or arrays where something was made of them.
    Ids = memoryview | NDArray[Any]
    Offsets = memoryview | NDArray[np.int64]

# A block of this many times the usual size is worth the threads of the whole unit.
MANY_BLOCKS = 4


class Encoded(NamedTuple):
    """Framed documents of one batch, and which records they were."""

    ids: Ids
    offsets: Offsets
    origins: Origins

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.offsets) - 1


@dataclass(slots=True)
class Kept:
    """The documents of a block that passed the text filters, and what was counted on the way."""

    texts: Texts
    part: Part
    origins: Origins
    account: Account
    rows_read: int
    rejects: tuple[Reject, ...]
    known: Known | None = None
    # Records that are not conversations, by their row in the part, in order.
    faults: dict[int, RecordError] = field(default_factory=dict)

    def take_texts(self) -> Texts:
        """The texts, which are then held by the caller alone: a huge one goes as soon as it is encoded."""
        texts, self.texts = self.texts, Texts()
        return texts


def keep_blocks(job: Job, blocks: Iterator[tuple[Part, Block]], duplicates: Mask | None) -> Iterator[Kept]:
    """Every block of a unit, given with the part of it or of each document, after the text filters.

    `duplicates` says of each document that passes them whether it repeats an earlier one.
    """
    passed = 0
    for part, block in blocks:
        mask, reasons = job.filters.keep(block)
        if duplicates is not None:
            mask = np.ones(len(block.texts), dtype=bool) if mask is None else mask
            candidates = np.flatnonzero(mask)
            again = duplicates[passed : passed + len(candidates)]
            mask[candidates[again]] = False
            reasons["duplicate"] += int(again.sum())
            passed += len(candidates)
        if job.split is not None:
            mask = np.ones(len(block.texts), dtype=bool) if mask is None else mask
            elsewhere = mask & job.split.find_left_out(block.texts, block.ids)
            mask &= ~elsewhere
            reasons[job.split.other] += int(elsewhere.sum())
        account = Account(
            documents_read=len(block),
            documents_dropped=+reasons,
            rejected=Counter(block.refused),
            replaced=Counter(block.replaced),
            input_bytes=block.bytes_read,
            text_bytes=block.texts.nbytes,
        )
        origins = Origins(part, block.rows, block.ids).take(mask)
        texts = block.texts.filter(mask)
        known = block.known if mask is None or mask.all() else None
        kept = Kept(texts, part, origins, account, block.rows_read, block.rejects, known)
        # Nothing here may hold a text that is on its way.
        del block, texts
        yield kept
        del kept


def encode_kept(job: Job, control: Control, kept: Kept) -> tuple[Kept, list[Encoded]]:
    """The batches of a block, and the block with what encoding counted."""
    texts, origins, account = kept.take_texts(), kept.origins, kept.account
    if job.chat is not None:
        return kept, _encode_chats(job, job.chat, control, texts, kept)
    account.special_strings += job.special_strings.count(texts.offsets, texts.data)
    known = kept.known
    if known is not None and (
        known.frame != (job.packing.bos_id, job.packing.eos_id) or not job.frames_at_once
    ):
        known = None
    count, made = len(texts), []
    # One thread for a block among others, all of them for one that is far larger than a block.
    threads = control.threads if texts.nbytes > MANY_BLOCKS * control.block_bytes else 1
    size = control.batching.batch_size or max(1, count)
    for start in range(0, max(1, count), size):
        control.check()
        part = texts.slice(start, size)
        if start + size >= count:
            del texts
        some = origins.slice(start, len(part))
        if known is None:
            ids, ends, chosen = _encode_framed(job, part, threads, account)
        else:
            ids, ends = _encode_stale(job, part, known.slice(start, len(part)), threads, account)
            chosen = None
        del part
        made.append(Encoded(ids, ends, some.take(chosen)))
    return kept, made


def _encode_chats(job: Job, work: ChatWork, control: Control, texts: Texts, kept: Kept) -> list[Encoded]:
    """The conversations of a block, in batches."""
    size = control.batching.batch_size or max(1, len(texts))
    made = []
    for start in range(0, max(1, len(texts)), size):
        control.check()
        part, some = texts.slice(start, size), kept.origins.slice(start, size)
        batch = encode_chats(job, work, part, kept.account)
        rows = np.asarray(some.rows)
        kept.faults |= {int(rows[place]): batch.faults[place] for place in sorted(batch.faults)}
        ids, offsets, chosen = _finish_chats(job, batch.ids, batch.offsets, kept.account)
        mask = batch.kept
        mask[np.flatnonzero(mask)[~chosen]] = False
        made.append(Encoded(ids, offsets, some.take(mask)))
    return made


def _finish_chats(job: Job, ids: Any, offsets: Any, account: Account) -> tuple[Ids, Offsets, Mask]:
    """Token filters, markers and the policy for long ones."""
    lengths, learned = np.diff(offsets), count_learned(ids, offsets)
    passed, documents, tokens, taught = filter_tokens(job.config.filter, lengths, learned)
    account.documents_dropped.update(documents)
    account.tokens_dropped.update(tokens)
    account.learned_dropped.update(taught)
    ids, offsets = select_documents(ids, offsets, passed)
    before, marked = len(ids), int(is_learned(ids).sum())
    ids, offsets = frame_chats(ids, offsets, job.packing.bos_id, job.packing.eos_id)
    account.tokens_added += len(ids) - before
    added = int(is_learned(ids).sum()) - marked
    account.learned_read += added
    account.learned_roles["eos"] += added
    ids, offsets, kept = _cut(job, ids, offsets, account)
    passed[np.flatnonzero(passed)[~kept]] = False
    return ids, offsets, passed


def _cut(job: Job, ids: Any, offsets: Any, account: Account) -> tuple[Any, Any, Mask]:
    """Documents that fit a row, where that was asked for."""
    length = job.packing.context_length
    if job.too_long is None or length is None:
        return ids, offsets, np.ones(len(offsets) - 1, bool)
    return cut_long(ids, offsets, length, job.too_long, account, marked=job.chat is not None)


def _encode_framed(
    job: Job, texts: Texts, threads: int, account: Account
) -> tuple[Ids, Offsets, Mask | None]:
    """Framed ids of the documents that pass the token filters, their offsets, and which (None for all)."""
    packing, special = job.packing, job.config.tokenizer.special
    frame = packing.bos_id, packing.eos_id
    if job.frames_at_once:
        framed = job.encoder.engine.encode_framed(texts, frame, special, threads=threads)
        added = len(texts) * sum(marker is not None for marker in frame)
        account.tokens_encoded += len(framed[0]) - added
        account.tokens_added += added
        return *framed, None
    batch = job.encoder.encode_batch(texts, special=special, threads=threads)
    account.tokens_encoded += len(batch.ids)
    kept = _apply_token_filters(job, np.diff(batch.offsets), account)
    ids, offsets = select_documents(batch.ids, batch.offsets, kept)
    before = len(ids)
    ids, offsets = frame_documents(ids, offsets, *frame, job.encoded_dtype)
    account.tokens_added += len(ids) - before
    ids, offsets, fits = _cut(job, ids, offsets, account)
    kept[np.flatnonzero(kept)[~fits]] = False
    return ids, offsets, kept


def _encode_stale(
    job: Job, texts: Texts, known: Known, threads: int, account: Account
) -> tuple[Ids, Offsets]:
    """Framed ids of all documents, of which only the stale ones are encoded."""
    fresh, ends, _ = _encode_framed(job, texts.filter(known.stale), threads, account)
    ids, offsets = splice(known, fresh, ends)
    added = int(len(known.stale) - known.stale.sum()) * sum(marker is not None for marker in known.frame)
    account.tokens_encoded += len(ids) - len(fresh) - added
    account.tokens_added += added
    return ids, offsets


def _apply_token_filters(job: Job, lengths: NDArray[np.int64], account: Account) -> Mask:
    """Which documents of so many tokens pass the token filters; the others are counted."""
    kept, documents, tokens, _ = filter_tokens(job.config.filter, lengths)
    account.documents_dropped.update(documents)
    account.tokens_dropped.update(tokens)
    return kept
