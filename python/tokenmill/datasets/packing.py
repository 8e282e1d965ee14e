"""Pack documents into rows: segments say which span of which document stands where.

Documents arrive in blocks of any size, and the rows never depend on the blocks. Every layout counts what it
leaves out, so that read = written + dropped for any input.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.texts import is_learned, strip_marks
from tokenmill.datasets.documents import Cover, make_offsets, store_columns
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.documents import Ids, Int64s

# Best fit packs this many tokens at a time: enough that under 1 % of the rows are left half empty, few enough
# that a unit of any size packs in bounded memory. Part of the format: changing it changes the bytes.
BESTFIT_GROUP = 1 << 22


@dataclass(frozen=True, slots=True)
class Segments:
    """Four arrays of one length; `position` counts tokens from the first row, sorted, never across a row."""

    document: Int64s
    start: Int64s
    position: Int64s
    length: Int64s

    def __len__(self) -> int:
        return len(self.length)

    def take(self, which: NDArray[Any]) -> Segments:
        """Return the segments that a mask or an index array selects."""
        return Segments(self.document[which], self.start[which], self.position[which], self.length[which])

    def shift(self, *, documents: int = 0, positions: int = 0) -> Segments:
        """Return the segments with other origins."""
        return Segments(self.document + documents, self.start, self.position + positions, self.length)

    def to_table(self) -> NDArray[np.uint64]:
        """Return rows of (document, start, position, length) as a `.seg` file stores them."""
        return np.column_stack([self.document, self.start, self.position, self.length]).astype("<u8")

    @classmethod
    def join(cls, *parts: Segments) -> Segments:
        """Concatenate segments; none at all is an empty table."""
        fields = ("document", "start", "position", "length")
        none = np.empty(0, dtype=np.int64)
        return cls(*(np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in fields))


def _count_within(counts: Int64s) -> Int64s:
    """`[2, 3]` -> `[0, 1, 0, 1, 2]`."""
    starts = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)


def lay_concat(lengths: Int64s, context_length: int, *, lead: int = 0) -> Segments:
    """Lay documents end to end, cut every `context_length` tokens, the first `lead` tokens into its row.

    `lay_concat([3, 4], 5)` -> rows `aaabb`, `bb___`.
    """
    document = np.flatnonzero(lengths > 0)
    first = lead + (np.cumsum(lengths) - lengths)[document]
    end = first + lengths[document]
    row = first // context_length
    pieces = (end - 1) // context_length - row + 1
    owner = np.repeat(np.arange(len(document)), pieces)
    row_start = (row[owner] + _count_within(pieces)) * context_length
    position = np.maximum(first[owner], row_start)
    stop = np.minimum(end[owner], row_start + context_length)
    return Segments(document[owner], position - first[owner], position, stop - position)


def lay_window(lengths: Int64s, context_length: int, overlap: int, *, drop_tail: bool) -> Segments:
    """Lay each document alone, in windows that repeat the last `overlap` tokens of the one before.

    `lay_window([7], 4, 1)` -> `0123`, `3456`. A last window that is not full is padded or dropped.
    """
    stride = context_length - overlap
    windows = np.where(lengths > context_length, -(-(lengths - context_length) // stride) + 1, lengths > 0)
    document = np.repeat(np.arange(len(lengths)), windows)
    start = _count_within(windows.astype(np.int64)) * stride
    length = np.minimum(lengths[document] - start, context_length)
    keep = length == context_length if drop_tail else np.ones(len(length), dtype=bool)
    return Segments(document[keep], start[keep], np.arange(keep.sum()) * context_length, length[keep])


def lay_bestfit(lengths: Int64s, context_length: int, most: int | None = None) -> Segments:
    """Lay documents whole where they fit, at most `most` to a row; a longer one gives full rows and a rest.

    Rows are in the order in which their first bin was opened; within a row the longest item is first.
    """
    items = lay_window(lengths, context_length, 0, drop_tail=False)
    bins, places = _core.best_fit(np.ascontiguousarray(items.length), context_length, most)
    position = bins * context_length + places
    order = np.argsort(position, kind="stable")
    return Segments(items.document, items.start, position, items.length).take(order)


@dataclass(frozen=True, slots=True)
class RowShape:
    """What all rows of a job share."""

    context_length: int
    pad_id: int
    columns: tuple[str, ...] = ()
    overlap: int = 0
    drop_tail: bool = False
    most_documents: int | None = None
    # True if ids carry the loss mask in their highest bit (`base.texts`).
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    """Some finished rows, flat, with their columns and segments, and an account of their tokens."""

    ids: Ids
    columns: dict[str, Ids]
    segments: Segments
    rows: int
    account: Account


def _finish(rows: Ids, segments: Segments, shape: RowShape) -> Packed:
    """Compute the columns and the account of filled rows."""
    covered = int(segments.length.sum())
    # The beginning of every window but a document's first repeats the one before it.
    again = segments.position[segments.start > 0]
    repeated = len(again) * shape.overlap
    account = Account(
        tokens_written=covered - repeated, tokens_repeated=repeated, tokens_padding=len(rows) - covered
    )
    loss_mask = None
    if shape.marked:
        loss_mask, rows = is_learned(rows), strip_marks(rows)
        account.learned_repeated = int(loss_mask[again[:, None] + np.arange(shape.overlap)].sum())
        account.learned_written = int(loss_mask.sum()) - account.learned_repeated
    cover = Cover(rows, segments.document, segments.position, segments.length, loss_mask)
    columns = store_columns(shape.columns, cover)
    return Packed(rows, columns, segments, len(rows) // shape.context_length, account)


def _count_dropped(account: Account, tokens: int, documents: int, learned: int) -> None:
    """Add the tail that was left out. Its documents were counted as written."""
    account.documents_written -= documents
    account.documents_dropped["tail"] += documents
    account.tokens_dropped["tail"] += tokens
    account.learned_dropped["tail"] += learned


def _pack(ids: Ids, offsets: Int64s, segments: Segments, shape: RowShape, first_document: int) -> Packed:
    """Fill the rows of documents that are in these rows or nowhere, and count what is dropped."""
    count = int(segments.position[-1]) // shape.context_length + 1 if len(segments) else 0
    rows = np.full(count * shape.context_length, shape.pad_id, dtype=ids.dtype)
    source = offsets[segments.document] + segments.start
    _core.copy_segments(ids, source, segments.position, segments.length, rows)
    packed = _finish(rows, segments.shift(documents=first_document), shape)
    given, account = ids[offsets[0] : offsets[-1]], packed.account
    learned = int(is_learned(given).sum()) - account.learned_written if shape.marked else 0
    lost = int((np.diff(offsets) > 0).sum() - (segments.start == 0).sum())
    _count_dropped(account, len(given) - account.tokens_written, lost, learned)
    return packed


@dataclass
class DocumentPacker:
    """`pad` and `window`: every document has rows of its own, so nothing is carried over."""

    shape: RowShape
    _documents: int = 0

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Packed]:
        """Yield the rows of these documents, all at once."""
        lengths, shape = np.diff(offsets), self.shape
        segments = lay_window(lengths, shape.context_length, shape.overlap, drop_tail=shape.drop_tail)
        yield _pack(ids, offsets, segments, shape, self._documents)
        self._documents += len(lengths)

    def finish(self) -> Iterator[Packed]:
        """Yield nothing."""
        yield from ()


@dataclass
class ConcatPacker:
    """`concat`: full rows leave at once; less than one row is carried to the next block."""

    shape: RowShape
    _documents: int = 0
    _carried: Ids | None = None
    _segments: Segments = field(default_factory=Segments.join)

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Packed]:
        """Yield all rows that are full now."""
        carried = ids[:0] if self._carried is None else self._carried
        fresh = lay_concat(np.diff(offsets), self.shape.context_length, lead=len(carried))
        segments = Segments.join(self._segments, fresh.shift(documents=self._documents))
        flat = np.concatenate([carried, ids[offsets[0] : offsets[-1]]])
        self._documents += len(offsets) - 1
        size = len(flat) // self.shape.context_length * self.shape.context_length
        done = segments.position < size
        self._carried, self._segments = flat[size:].copy(), segments.take(~done).shift(positions=-size)
        if size:
            yield _finish(flat[:size], segments.take(done), self.shape)

    def finish(self) -> Iterator[Packed]:
        """Yield the last row, padded or dropped."""
        if self._carried is None or not len(self._carried):
            return
        rest, segments, shape = self._carried, self._segments, self.shape
        self._carried = None
        if shape.drop_tail:
            packed = _finish(rest[:0], Segments.join(), shape)
            learned = int(is_learned(rest).sum()) if shape.marked else 0
            # A document whose first token is in the dropped row has nothing in any row before.
            _count_dropped(packed.account, len(rest), int((segments.start == 0).sum()), learned)
            yield packed
            return
        row = np.full(shape.context_length, shape.pad_id, dtype=rest.dtype)
        row[: len(rest)] = rest
        yield _finish(row, segments, shape)


@dataclass
class GroupPacker:
    """`bestfit`: documents are gathered until `group` tokens are there, then packed together.

    A group ends with the document that fills it, whichever block that document came in.
    """

    shape: RowShape
    group: int = BESTFIT_GROUP
    _documents: int = 0
    _ids: list[Ids] = field(default_factory=list)
    _lengths: list[Int64s] = field(default_factory=list)
    _tokens: int = 0

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Packed]:
        """Yield the rows of every group that is full now."""
        while len(offsets) > 1:
            # The first document whose end reaches what is missing closes the group.
            missing = self.group - self._tokens
            count = int(np.searchsorted(offsets[1:] - offsets[0], missing)) + 1
            part = offsets[: count + 1]
            self._ids.append(ids[part[0] : part[-1]])
            self._lengths.append(np.diff(part))
            self._tokens += int(part[-1] - part[0])
            if self._tokens >= self.group:
                yield from self.finish()
            offsets = offsets[count:]

    def finish(self) -> Iterator[Packed]:
        """Yield the rows of the documents gathered so far."""
        if not self._lengths:
            return
        ids, lengths = np.concatenate(self._ids), np.concatenate(self._lengths)
        segments = lay_bestfit(lengths, self.shape.context_length, self.shape.most_documents)
        yield _pack(ids, make_offsets(lengths), segments, self.shape, self._documents)
        self._documents += len(lengths)
        self._ids, self._lengths, self._tokens = [], [], 0


# `push` adds documents and yields the rows that they finish; `finish` yields the rows that are left.
Packer = DocumentPacker | ConcatPacker | GroupPacker


def make_packer(mode: str, shape: RowShape) -> Packer:
    """Return the packer of a mode other than `stream`, which needs none."""
    if mode == "window":
        return DocumentPacker(shape)
    shape = replace(shape, overlap=0)
    if mode == "concat":
        return ConcatPacker(shape)
    if mode == "bestfit":
        return GroupPacker(shape)
    if mode == "pad":
        return DocumentPacker(replace(shape, drop_tail=False))
    raise ConfigError(f"packing mode {mode!r} makes no rows; known: concat, window, bestfit, pad")
