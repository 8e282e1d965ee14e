"""Blocks of documents, where item `d` is `ids[offsets[d]:offsets[d + 1]]`, and the columns of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.texts import to_arrow
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    import pyarrow as pa
Ids = NDArray[Any]
Int64s = NDArray[np.int64]
Part = int | NDArray[np.int32]


# Re-exported, because `pipeline` does not import the core.
blank_texts = _core.blank_texts
has_blank = _core.has_blank
frame_documents = _core.frame_documents


def make_offsets(lengths: NDArray[Any]) -> Int64s:
    """Return the offsets of lengths: `[2, 3]` -> `[0, 2, 5]`."""
    return np.asarray(np.concatenate([[0], np.cumsum(lengths)]), np.int64)


def group_documents(offsets: Int64s, at_once: int) -> Iterator[tuple[int, int]]:
    """Yield ranges `(first, last + 1)` of documents that have about `at_once` tokens together."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + at_once, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def select_documents(ids: Ids, offsets: Int64s, kept: NDArray[np.bool_]) -> tuple[Ids, Int64s]:
    """Return the ids and offsets of the documents where `kept` is set."""
    if kept.all():
        return ids, offsets
    lengths = np.diff(offsets)[kept]
    ends = make_offsets(lengths)
    out = np.empty(int(ends[-1]), dtype=ids.dtype)
    _core.copy_segments(ids, offsets[:-1][kept], ends[:-1], lengths, out)
    return out, ends


@dataclass(frozen=True, slots=True)
class Origins:
    """The source of each document: the part of its unit, the record's number in that part, and its id.

    `part` is one number for all documents, or an array with one for each.
    """

    part: Part
    rows: memoryview | Int64s
    ids: pa.LargeStringArray | None = None

    def take(self, kept: NDArray[np.bool_] | Int64s | None) -> Origins:
        """Return the origins selected by a mask or by indices. None selects all."""
        if kept is None or (kept.dtype == bool and kept.all()):
            return self
        rows = np.asarray(self.rows)[kept]
        part = self.part if isinstance(self.part, int) else self.part[kept]
        if self.ids is None:
            return Origins(part, rows)
        places = np.flatnonzero(kept) if kept.dtype == bool else kept
        return Origins(part, rows, self.ids.take(to_arrow(places)))

    def slice(self, start: int, count: int) -> Origins:
        """Return the origins of `count` documents from `start` on."""
        ids = self.ids.slice(start, count) if self.ids is not None else None
        part = self.part if isinstance(self.part, int) else self.part[start : start + count]
        return Origins(part, self.rows[start : start + count], ids)


_make_counter = lru_cache(maxsize=4)(_core.StringCounter)


def count_strings(strings: tuple[str, ...], offsets: memoryview, data: memoryview) -> int:
    """Return how often strings such as `<s>` occur in texts."""
    return _make_counter(strings).count(data, offsets) if strings and len(offsets) > 1 else 0


LOSS_MASK: Final = "loss_mask"
# The label that loss functions ignore.
IGNORED = -100


@dataclass(frozen=True)
class Cover:
    """The flat ids of some rows and the document spans in them, in order. The rest is padding."""

    ids: NDArray[Any]
    documents: NDArray[np.int64]
    positions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    # As long as the ids; None if every token is trained.
    loss_mask: NDArray[np.bool_] | None = None

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """True on tokens, False on padding."""
        return self.spread(np.ones_like(self.positions), 0, "int8").view(np.bool_)

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """True on tokens that are trained."""
        return self.covered if self.loss_mask is None else self.covered & self.loss_mask

    def spread(self, firsts: NDArray[np.int64], elsewhere: int, dtype: str, step: int = 0) -> NDArray[Any]:
        """Return an array with each span set to its value in `firsts`, plus `step` for each later token."""
        out = np.full(len(self.ids), elsewhere, dtype=dtype)
        first, position, length = (
            np.ascontiguousarray(each, np.int64) for each in (firsts, self.positions, self.lengths)
        )
        _core.fill_runs(first, step, position, length, out)
        return out


@dataclass(frozen=True)
class Column:
    """A column: its type in files (`stored`), its type in batches (`read`) and how it is computed."""

    name: str
    stored: str
    read: str
    make: Callable[[Cover, str], NDArray[Any]]
    # True if it depends on the loss mask.
    trained: bool = False


def _make_labels(cover: Cover, dtype: str) -> NDArray[Any]:
    labels = cover.ids.astype(dtype)
    np.putmask(labels, ~cover.trained, IGNORED)
    return labels


_COLUMNS = (
    # 1 on a token, 0 on padding.
    Column("attention_mask", "int8", "int8", lambda cover, kind: cover.covered.astype(kind)),
    # The document's number, -1 on padding. Files count from the shard's first document, because shards are
    # written independently; readers add the documents of all earlier shards.
    Column("document_ids", "int32", "int64", lambda cover, kind: cover.spread(cover.documents, -1, kind)),
    # The token id; -100 on padding and on tokens that are not trained.
    Column("labels", "int32", "int64", _make_labels, trained=True),
    # 1 on a token that is trained. The only column that cannot be computed from the spans.
    Column(LOSS_MASK, "int8", "int8", lambda cover, kind: cover.trained.astype(kind), trained=True),
    # 0, 1, 2, … from the start of each document's span in the row; 0 on padding.
    Column("position_ids", "int32", "int64", lambda cover, kind: cover.spread(cover.lengths * 0, 0, kind, 1)),
)
COLUMNS = {column.name: column for column in _COLUMNS}


def find_column(name: str) -> Column:
    """Return the column of that name, or raise `DatasetError`."""
    if name not in COLUMNS:
        raise DatasetError(f"{name!r} is not a column; the columns are {', '.join(COLUMNS)}")
    return COLUMNS[name]


def store_columns(names: Sequence[str], cover: Cover) -> dict[str, NDArray[Any]]:
    """Compute columns as flat arrays of the types used in files."""
    return {column.name: column.make(cover, column.stored) for column in map(find_column, names)}
