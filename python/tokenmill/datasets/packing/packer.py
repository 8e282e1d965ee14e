"""Packing a stream of documents that arrives in blocks of any size: the rows never depend on the blocks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tokenmill import _core
from tokenmill.base.learned import is_learned, strip_marks
from tokenmill.datasets.packing.column import Cover, store_columns
from tokenmill.datasets.packing.modes import Placement, lay_bestfit, lay_concat, lay_pad, lay_window
from tokenmill.datasets.packing.segments import Segments, fill_rows
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.packing.segments import Ids, Int64s

# Best fit looks at this many tokens at a time: enough that under 1 % of the rows are left half empty, little
# enough that a unit of any size packs in bounded memory. Part of the format: changing it changes the bytes.
BESTFIT_GROUP = 1 << 22


@dataclass(frozen=True, slots=True)
class Packed:
    """Some finished rows, flat, with their columns, their segments, and what was counted on the way."""

    ids: Ids
    columns: dict[str, Ids]
    segments: Segments
    rows: int
    written: int
    repeated: int
    padding: int
    dropped_tokens: int = 0
    dropped_documents: int = 0
    # Tokens that are learned: in rows once, in rows again, and dropped.
    learned: int = 0
    learned_repeated: int = 0
    learned_dropped: int = 0


class Packer(Protocol):
    """Takes documents in order, gives rows in order; `finish` gives what is left."""

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Packed]:
        """Add documents `ids[offsets[d]:offsets[d + 1]]`; yields the rows that are finished by them."""

    def finish(self) -> Iterator[Packed]:
        """The end of the unit."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """What every row of a job shares."""

    context_length: int
    pad_id: int
    columns: tuple[str, ...] = ()
    overlap: int = 0
    drop_tail: bool = False
    most_documents: int | None = None
    # Whether ids come marked (`base.learned`).
    marked: bool = False


def frame_documents(
    ids: Ids, offsets: Int64s, bos: int | None, eos: int | None, dtype: str
) -> tuple[Ids, Int64s]:
    """`ids, [0, 2]`, bos 8, eos 9 -> `[8, a, b, 9], [0, 4]` as `uint16` or `uint32`, in one pass."""
    framed: tuple[Ids, Int64s] = _core.frame_documents(ids, offsets, bos, eos, dtype == "uint32")
    return framed


def select_documents(ids: Ids, offsets: Int64s, kept: NDArray[np.bool_]) -> tuple[Ids, Int64s]:
    """Only the documents that a mask keeps, flat again."""
    if kept.all():
        return ids, offsets
    lengths = np.diff(offsets)[kept]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    out = np.empty(int(ends[-1]), dtype=ids.dtype)
    _core.copy_segments(ids, offsets[:-1][kept], ends[:-1], lengths, out)
    return out, ends


def make_packer(mode: str, shape: RowShape) -> Packer:
    """The packer of a mode other than `stream`, which needs none."""
    if mode == "concat":
        return ConcatPacker(shape)
    if mode == "bestfit":
        return GroupPacker(shape)
    if mode in {"pad", "window"}:
        return DocumentPacker(shape, windows=mode == "window")
    raise ConfigError(f"packing mode {mode!r} makes no rows; known: concat, window, bestfit, pad")


def _pack(ids: Ids, offsets: Int64s, placement: Placement, shape: RowShape, first_document: int) -> Packed:
    size = placement.rows * shape.context_length
    rows = fill_rows(ids, offsets, placement.segments, size, shape.pad_id)
    packed = _finish(rows, placement, shape, placement.segments.shift(documents=first_document))
    if not shape.marked:
        return packed
    # All of these documents are in these rows or nowhere.
    given = int(is_learned(ids[offsets[0] : offsets[-1]]).sum())
    return replace(packed, learned_dropped=given - packed.learned)


def _finish(
    rows: Ids, placement: Placement, shape: RowShape, segments: Segments, learned_dropped: int = 0
) -> Packed:
    """Rows with their columns, and what was counted."""
    covered = int(segments.length.sum())
    taught = is_learned(rows) if shape.marked else None
    again = 0
    if taught is not None:
        rows = strip_marks(rows)
        if shape.overlap:
            # The beginning of every window but a document's first repeats the one before it.
            starts = segments.position[segments.start > 0]
            again = int(taught[starts[:, None] + np.arange(shape.overlap)].sum()) if len(starts) else 0
    cover = Cover(rows, segments.document, segments.position, segments.length, taught)
    return Packed(
        ids=rows,
        columns=store_columns(shape.columns, cover),
        segments=segments,
        rows=placement.rows,
        written=covered - placement.repeated,
        repeated=placement.repeated,
        padding=len(rows) - covered,
        dropped_tokens=placement.dropped_tokens,
        dropped_documents=placement.dropped_documents,
        learned=int(taught.sum()) - again if taught is not None else 0,
        learned_repeated=again,
        learned_dropped=learned_dropped,
    )


@dataclass
class DocumentPacker:
    """`pad` and `window`: every document has rows of its own, so nothing is carried over."""

    shape: RowShape
    windows: bool
    _documents: int = 0

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Packed]:
        """The rows of these documents, all at once."""
        lengths, shape = np.diff(offsets), self.shape
        if self.windows:
            placement = lay_window(lengths, shape.context_length, shape.overlap, drop_tail=shape.drop_tail)
        else:
            placement = lay_pad(lengths, shape.context_length)
        packed = _pack(ids, offsets, placement, shape, self._documents)
        self._documents += len(lengths)
        if packed.rows or packed.dropped_tokens:
            yield packed

    def finish(self) -> Iterator[Packed]:
        """Nothing is left."""
        yield from ()


@dataclass
class ConcatPacker:
    """`concat`: full rows leave at once; less than one row is carried to the next block."""

    shape: RowShape
    _documents: int = 0
    _carried: Ids | None = None
    _carried_segments: Segments = field(default_factory=Segments.empty)

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Packed]:
        """All rows that are full now."""
        carried = ids[:0] if self._carried is None else self._carried
        placement = lay_concat(np.diff(offsets), self.shape.context_length, lead=len(carried))
        new = placement.segments.shift(documents=self._documents)
        segments = Segments.join([self._carried_segments, new])
        flat = np.concatenate([carried, ids[offsets[0] : offsets[-1]]])
        self._documents += len(offsets) - 1
        size = len(flat) // self.shape.context_length * self.shape.context_length
        done = segments.position < size
        self._carried = flat[size:].copy()
        self._carried_segments = segments.take(~done).shift(positions=-size)
        if size:
            yield self._finish(flat[:size], segments.take(done))

    def finish(self) -> Iterator[Packed]:
        """The last row, padded or dropped."""
        if self._carried is None or not len(self._carried):
            return
        rest, segments = self._carried, self._carried_segments
        self._carried, self._carried_segments = rest[:0], Segments.empty()
        if self.shape.drop_tail:
            # A document whose first token is in the dropped row has nothing in any row before.
            lost = int((segments.start == 0).sum())
            taught = int(is_learned(rest).sum()) if self.shape.marked else 0
            placement = Placement(Segments.empty(), 0, dropped_tokens=len(rest), dropped_documents=lost)
            yield _finish(rest[:0], placement, self.shape, Segments.empty(), taught)
            return
        row = np.full(self.shape.context_length, self.shape.pad_id, dtype=rest.dtype)
        row[: len(rest)] = rest
        yield self._finish(row, segments)

    def _finish(self, flat: Ids, segments: Segments) -> Packed:
        placement = Placement(segments, len(flat) // self.shape.context_length)
        return _finish(flat, placement, self.shape, segments)


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
        """The rows of every group that is full now."""
        while len(offsets) > 1:
            missing = self.group - self._tokens
            # The first document whose end reaches what is missing closes the group.
            count = int(np.searchsorted(offsets[1:] - offsets[0], missing)) + 1
            part = offsets[: count + 1]
            self._ids.append(ids[part[0] : part[-1]])
            self._lengths.append(np.diff(part))
            self._tokens += int(part[-1] - part[0])
            if self._tokens >= self.group:
                yield from self.finish()
            offsets = offsets[count:]

    def finish(self) -> Iterator[Packed]:
        """The rows of the documents gathered so far."""
        if not self._lengths:
            return
        lengths = np.concatenate(self._lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        placement = lay_bestfit(lengths, self.shape.context_length, self.shape.most_documents)
        packed = _pack(np.concatenate(self._ids), offsets, placement, self.shape, self._documents)
        self._documents += len(lengths)
        self._ids, self._lengths, self._tokens = [], [], 0
        if packed.rows:
            yield packed
