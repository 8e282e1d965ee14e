"""Turn a block of texts into framed ids: text filters, batches, token filters, BOS and EOS.

A dropped document is counted under the first reason that applies, in the order blank, too few characters, too
many, predicate, function, duplicate, the other side of a split, too few tokens, too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.texts import BIT, Texts, is_learned
from tokenmill.chat.records import RecordError
from tokenmill.datasets.documents import (
    Origins,
    Part,
    blank_texts,
    count_strings,
    frame_documents,
    has_blank,
    select_documents,
)
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.datasets.ledger.selection import other_part
from tokenmill.pipeline.executors import Control
from tokenmill.settings.schema import FilterConfig
from tokenmill.sources.model import Block, Reject

if TYPE_CHECKING:
    from tokenmill.pipeline.job import Job
Mask = NDArray[np.bool_]

# A block larger than this many usual blocks is encoded with all threads of the unit.
MANY_BLOCKS = 4


class Sieve:
    """A mask of kept documents, and the number of dropped ones by first reason."""

    def __init__(self, count: int) -> None:
        self.kept: Mask = np.ones(count, dtype=bool)
        self.reasons: Counter[str] = Counter()

    def drop(self, reason: str, out: Mask) -> Mask:
        """Drop documents for a reason. Return the mask of those that were still kept."""
        fresh = self.kept & out
        if count := int(fresh.sum()):
            self.reasons[reason] += count
            self.kept &= ~out
        return fresh


class TextFilters:
    """Filters on the text and the columns of a record. The user's function is applied last."""

    def __init__(self, config: FilterConfig, function: Callable[[str], bool] | None = None) -> None:
        self.config = config
        self.function = function
        self.predicate = None
        if config.where:
            from tokenmill.sources.where import Predicate  # here, since it imports Arrow

            self.predicate = Predicate(config.where)
        # The columns that a source must provide.
        self.columns = self.predicate.columns if self.predicate else ()

    def sift(self, block: Block) -> Sieve:
        """Return the documents to keep."""
        config, texts, sieve = self.config, block.texts, Sieve(len(block.texts))
        if config.drop_blank and has_blank(texts.data, texts.offsets):
            sieve.drop("blank", blank_texts(texts.data, texts.offsets))
        if config.min_chars is not None or config.max_chars is not None:
            import pyarrow.compute as pc

            characters = np.asarray(pc.utf8_length(texts.to_arrow()))
            sieve.drop("min_chars", characters < (config.min_chars or 0))
            if config.max_chars is not None:
                sieve.drop("max_chars", characters > config.max_chars)
        if self.predicate is not None and len(texts):
            sieve.drop("where", ~self.predicate.mask(block.columns, len(texts)))
        if self.function is not None:
            # A loop over documents, since the function takes one text.
            refused = [kept and not self.function(texts[at]) for at, kept in enumerate(sieve.kept)]
            sieve.drop("function", np.array(refused, dtype=bool))
        return sieve


def filter_tokens(
    config: FilterConfig,
    lengths: NDArray[np.int64],
    account: Account,
    trained: NDArray[np.int64] | None = None,
) -> Mask:
    """Return a mask of the documents within the token limits. Count dropped documents and tokens."""
    sieve = Sieve(len(lengths))
    most = np.iinfo(np.int64).max if config.max_tokens is None else config.max_tokens
    limits = {"min_tokens": lengths < (config.min_tokens or 0), "max_tokens": lengths > most}
    for reason, out in limits.items():
        if (fresh := sieve.drop(reason, out)).any():
            account.tokens_dropped[reason] += int(lengths[fresh].sum())
            if trained is not None:
                account.learned_dropped[reason] += int(trained[fresh].sum())
    account.documents_dropped.update(sieve.reasons)
    return sieve.kept


class Encoded(NamedTuple):
    """Framed documents of one batch, and the records they come from."""

    ids: Any
    offsets: Any
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
    # Errors of invalid conversations by row in the part, in order.
    faults: dict[int, RecordError] = field(default_factory=dict)
    # The first row of each part of a message that the template does not render.
    left_out: dict[str, int] = field(default_factory=dict)


def keep_blocks(job: Job, blocks: Iterator[tuple[Part, Block]], duplicates: Mask | None) -> Iterator[Kept]:
    """Apply the text filters to every block. `duplicates` is a mask over the documents that pass."""
    passed = 0
    for part, block in blocks:
        sieve = job.filters.sift(block)
        if duplicates is not None:
            candidates, again = np.flatnonzero(sieve.kept), np.zeros(len(block), bool)
            again[candidates] = duplicates[passed : passed + len(candidates)]
            passed += len(candidates)
            sieve.drop("duplicate", again)
        if job.split is not None:
            sieve.drop(other_part(job.split.part), job.split.find_left_out(block.texts, block.ids))
        account = Account(
            documents_read=len(block),
            documents_dropped=sieve.reasons,
            rejected=Counter(block.refused),
            replaced=Counter(block.replaced),
            input_bytes=block.bytes_read,
            text_bytes=block.texts.nbytes,
        )
        origins = Origins(part, block.rows, block.ids).take(sieve.kept)
        yield Kept(block.texts.filter(sieve.kept), part, origins, account, block.rows_read, block.rejects)


def encode_kept(job: Job, control: Control, kept: Kept) -> tuple[Kept, list[Encoded]]:
    """Encode a block in batches. Return the batches and the block with updated counts."""
    texts, kept.texts = kept.texts, Texts()  # only ids are held while the block waits to be written
    account, made = kept.account, []
    if job.chat is None:
        account.special_strings += count_strings(job.special_strings, texts.offsets, texts.data)
    # One thread for a block of usual size, all threads for a much larger one.
    threads = control.threads if texts.nbytes > MANY_BLOCKS * control.block_bytes else 1
    size = control.batch_size or max(1, len(texts))
    for start in range(0, max(1, len(texts)), size):
        control.check()
        batch, origins = texts.slice(start, size), kept.origins.slice(start, size)
        mask: Mask | NDArray[np.int64] | None
        if job.chat is not None:
            ids, offsets, mask = _encode_chats(job, batch, origins, kept)
        else:
            ids, offsets, mask = _encode_texts(job, batch, threads, account)
        made.append(Encoded(ids, offsets, origins.take(mask)))
    return kept, made


def _encode_texts(job: Job, texts: Texts, threads: int, account: Account) -> tuple[Any, Any, Mask | None]:
    """Return framed ids, offsets and the mask of the documents that pass the token filters (None for all)."""
    special = job.config.tokenizer.special
    if job.frames_at_once:
        ids, offsets = job.encoder.engine.encode_framed(texts, job.frame, special, threads=threads)
        added = len(texts) * sum(marker is not None for marker in job.frame)
        account.tokens_encoded += len(ids) - added
        account.tokens_added += added
        return ids, offsets, None
    batch = job.encoder.encode_batch(texts, special=special, threads=threads)
    account.tokens_encoded += len(batch.ids)
    kept = filter_tokens(job.config.filter, np.diff(batch.offsets), account)
    chosen, ends = select_documents(batch.ids, batch.offsets, kept)
    wide = job.tokenizer.vocab_size > 1 << 16
    framed, ends = frame_documents(chosen, ends, *job.frame, wide)
    account.tokens_added += len(framed) - len(chosen)
    return framed, ends, kept


def _encode_chats(job: Job, texts: Texts, origins: Origins, kept: Kept) -> tuple[Any, Any, NDArray[np.int64]]:
    """Encode conversations, apply token filters, add BOS and EOS.

    Return ids, offsets and the index of each document's record in the texts.
    """
    assert job.chat is not None
    account, rows = kept.account, np.asarray(origins.rows)
    batch = job.chat.encode(texts, job.config.tokenizer.special, drop_blank=job.config.filter.drop_blank)
    account.text_bytes += batch.text_bytes - texts.nbytes
    account.documents_read += batch.documents - len(texts)
    account.rejected.update(error.reason for error in batch.errors.values())
    account.documents_dropped.update(batch.dropped)
    account.tokens_dropped.update(batch.tokens_dropped)
    account.special_strings += batch.special_strings
    account.tokens_encoded += len(batch.ids) + batch.tokens_dropped.total()
    account.learned_roles.update(batch.roles)
    account.learned_left_out.update(batch.left_out)
    learned = is_learned(batch.ids)
    kept.faults |= {int(rows[place]): batch.errors[place] for place in sorted(batch.errors)}
    kept.left_out = {part: int(rows[place]) for part, place in batch.first_left_out.items()} | kept.left_out
    trained = np.diff(np.concatenate([[0], np.cumsum(learned)])[np.asarray(batch.offsets)])
    passed = filter_tokens(job.config.filter, np.diff(batch.offsets), account, trained)
    ids, offsets = select_documents(batch.ids, batch.offsets, passed)
    framed, offsets = _frame_chats(ids, offsets, *job.frame)
    account.tokens_added += len(framed) - len(ids)
    added = int(is_learned(framed).sum()) - int(is_learned(ids).sum())
    account.learned_read += int(learned.sum()) + added
    account.learned_roles["eos"] += added
    return framed, offsets, np.array(batch.records, np.int64)[passed]


def _frame_chats(ids: Any, offsets: Any, bos: int | None, eos: int | None) -> tuple[Any, Any]:
    """Add BOS and EOS to conversations. An EOS after a trained token is trained."""
    if bos is None and eos is None:
        return ids, offsets
    ids, offsets = frame_documents(ids, offsets, bos, eos, wide=True)
    ids = np.array(ids)
    if eos is not None and len(offsets) > 1:
        last = np.asarray(offsets)[1:] - 1
        ids[last] |= np.where(is_learned(ids[last - 1]), BIT, np.uint32(0))
    return ids, offsets
