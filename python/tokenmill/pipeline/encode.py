"""Turn a block of texts into framed ids: text filters, batches, token filters, BOS and EOS."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmill.base.learned import is_learned
from tokenmill.base.texts import Texts
from tokenmill.datasets.documents import Origins, frame_documents, select_documents, splice
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.pipeline.chat import count_trained, encode_chats, frame_chats
from tokenmill.pipeline.filters import filter_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.chat.encode import ChatWork
    from tokenmill.chat.records import RecordError
    from tokenmill.datasets.documents import Part
    from tokenmill.pipeline.executors import Control
    from tokenmill.pipeline.job import Job
    from tokenmill.sources.model import Block, Known, Reject

    Mask = NDArray[np.bool_]
    # Views of the core's memory, or arrays where something was made of them.
    Ids = memoryview | NDArray[Any]
    Offsets = memoryview | NDArray[np.int64]

# A block of this many times the usual size is worth the threads of the whole unit.
MANY_BLOCKS = 4
TOO_LONG = "too_long"


class Encoded(NamedTuple):
    """Framed documents of one batch, and the records they come from."""

    ids: Ids
    offsets: Offsets
    origins: Origins

    @property
    def documents(self) -> int:
        """Return the number of documents."""
        return len(self.offsets) - 1


@dataclass(slots=True)
class Kept:
    """The documents of a block that passed the text filters, and the counts so far."""

    texts: Texts
    part: Part
    origins: Origins
    account: Account
    rows_read: int
    rejects: tuple[Reject, ...]
    known: Known | None = None
    # Records that are not conversations, by their row in the part, in order.
    faults: dict[int, RecordError] = field(default_factory=dict)


def keep_blocks(job: Job, blocks: Iterator[tuple[Part, Block]], duplicates: Mask | None) -> Iterator[Kept]:
    """Apply the text filters to every block; `duplicates` is a mask over the documents that pass them."""
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
        yield kept


def encode_kept(job: Job, control: Control, kept: Kept) -> tuple[Kept, list[Encoded]]:
    """Encode a block in batches; return it with the counts of encoding added."""
    texts, origins, account = kept.texts, kept.origins, kept.account
    kept.texts = Texts()  # only ids are held while the block waits to be written
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
    size = control.batch_size or max(1, count)
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
    """Encode the conversations of a block in batches."""
    size = control.batch_size or max(1, len(texts))
    made = []
    for start in range(0, max(1, len(texts)), size):
        control.check()
        part, some = texts.slice(start, size), kept.origins.slice(start, size)
        batch = encode_chats(job, work, part, kept.account)
        rows = np.asarray(some.rows)
        kept.faults |= {int(rows[place]): batch.errors[place] for place in sorted(batch.errors)}
        ids, offsets, chosen = _finish_chats(job, batch.ids, batch.offsets, kept.account)
        mask = batch.kept
        mask[np.flatnonzero(mask)[~chosen]] = False
        made.append(Encoded(ids, offsets, some.take(mask)))
    return made


def _finish_chats(job: Job, ids: Any, offsets: Any, account: Account) -> tuple[Ids, Offsets, Mask]:
    """Apply token filters, add BOS and EOS, and cut long conversations."""
    lengths, learned = np.diff(offsets), count_trained(ids, offsets)
    passed = filter_tokens(job.config.filter, lengths, account, learned)
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
    """Cut documents to the length of a row if a policy for long ones is set."""
    length = job.packing.context_length
    if job.too_long is None or length is None:
        return ids, offsets, np.ones(len(offsets) - 1, bool)
    return cut_long(ids, offsets, length, job.too_long, account, marked=job.chat is not None)


def _encode_framed(
    job: Job, texts: Texts, threads: int, account: Account
) -> tuple[Ids, Offsets, Mask | None]:
    """Return framed ids, offsets and the mask of the documents that pass the token filters (None for all)."""
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
    kept = filter_tokens(job.config.filter, np.diff(batch.offsets), account)
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
    """Return framed ids of all documents; only the stale ones are encoded."""
    fresh, ends, _ = _encode_framed(job, texts.filter(known.stale), threads, account)
    ids, offsets = splice(known, fresh, ends)
    added = int(len(known.stale) - known.stale.sum()) * sum(marker is not None for marker in known.frame)
    account.tokens_encoded += len(ids) - len(fresh) - added
    account.tokens_added += added
    return ids, offsets


def cut_long(
    ids: Any, offsets: Any, length: int, policy: str, account: Account, *, marked: bool
) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Return documents of at most `length` tokens, and the mask of those kept.

    A conversation is dropped if no trained token is left of it.
    """
    ids, offsets = np.asarray(ids), np.asarray(offsets)
    lengths = np.diff(offsets)
    kept = np.ones(len(lengths), bool)
    if not (lengths > length).any():
        return ids, offsets, kept
    starts, ends = offsets[:-1].copy(), offsets[1:].copy()
    long = lengths > length
    if policy == "truncate":
        ends[long] = starts[long] + length
    elif policy == "keep-last":
        starts[long] = ends[long] - length
    else:
        kept = ~long
    taught = np.concatenate([[0], np.cumsum(is_learned(ids))]) if marked else np.zeros(len(ids) + 1, np.int64)
    if marked:
        kept &= ~long | (taught[ends] > taught[starts])
    account.documents_dropped[TOO_LONG] += int((~kept).sum())
    left = np.where(kept, ends - starts, 0)
    account.tokens_dropped[TOO_LONG] += int((lengths - left).sum())
    account.learned_dropped[TOO_LONG] += int(
        (np.diff(taught[offsets]) - np.where(kept, taught[ends] - taught[starts], 0)).sum()
    )
    inside = np.repeat(starts, lengths)
    places = np.arange(offsets[0], offsets[-1])
    chosen = (places >= inside) & (places < np.repeat(ends, lengths))
    shortened = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
    cut = ids[offsets[0] : offsets[-1]][chosen]
    return *select_documents(cut, shortened, kept), kept
