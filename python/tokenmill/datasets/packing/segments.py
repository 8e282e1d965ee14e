"""Segments: which stretch of which document stands where in the rows. Rows and columns are made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[Any]
    Int64s = NDArray[np.int64]


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
        """The segments that a mask or an index array selects."""
        return Segments(self.document[which], self.start[which], self.position[which], self.length[which])

    def shift(self, *, documents: int = 0, positions: int = 0) -> Segments:
        """The same segments with other origins."""
        return Segments(self.document + documents, self.start, self.position + positions, self.length)

    def to_table(self) -> NDArray[np.uint64]:
        """Rows of (document, start, position, length) as they are stored in a `.seg` file."""
        return np.column_stack([self.document, self.start, self.position, self.length]).astype("<u8")

    @classmethod
    def empty(cls) -> Segments:
        """No segments."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none, none)

    @classmethod
    def join(cls, parts: list[Segments]) -> Segments:
        """Several one after another."""
        fields = ("document", "start", "position", "length")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def split_at_rows(segments: Segments, context_length: int) -> Segments:
    """Cut segments wherever they cross into the next row: `(position 3, length 4)`, 5 -> lengths 2 and 2."""
    kept = segments.take(segments.length > 0)
    first_row = kept.position // context_length
    pieces = (kept.position + kept.length - 1) // context_length - first_row + 1
    owner = np.repeat(np.arange(len(kept)), pieces)
    nth = count_within(pieces)
    row_start = (first_row[owner] + nth) * context_length
    position = np.maximum(kept.position[owner], row_start)
    end = np.minimum((kept.position + kept.length)[owner], row_start + context_length)
    start = kept.start[owner] + (position - kept.position[owner])
    return Segments(kept.document[owner], start, position, end - position)


def count_within(counts: Int64s) -> Int64s:
    """`[2, 3]` -> `[0, 1, 0, 1, 2]`."""
    starts = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)


def fill_rows(ids: Ids, offsets: Int64s, segments: Segments, size: int, pad_id: int) -> Ids:
    """A flat array of `size` ids: each segment's tokens at its position, `pad_id` elsewhere."""
    out = np.full(size, pad_id, dtype=ids.dtype)
    source = offsets[segments.document] + segments.start
    _core.copy_segments(ids, source, segments.position, segments.length, out)
    return out
