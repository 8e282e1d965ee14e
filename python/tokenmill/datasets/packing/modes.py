"""The ways to lay documents out in rows. Each takes document lengths and gives segments; none sees a token.

Every function counts what it leaves out, so that read = written + dropped for any input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core
from tokenmill.datasets.packing.segments import Segments, count_within, split_at_rows

if TYPE_CHECKING:
    from tokenmill.datasets.packing.segments import Int64s


@dataclass(frozen=True, slots=True)
class Placement:
    """Segments in `rows` rows, and what is not in them or in them twice."""

    segments: Segments
    rows: int
    repeated: int = 0
    dropped_tokens: int = 0
    dropped_documents: int = 0


def lay_concat(lengths: Int64s, context_length: int, *, lead: int = 0) -> Placement:
    """Documents end to end, cut every `context_length` tokens; the first starts `lead` tokens into its row.

    `lay_concat([3, 4], 5)` -> rows `aaabb`, `bb___`.
    """
    position = lead + np.cumsum(lengths) - lengths
    every = Segments(np.arange(len(lengths)), np.zeros(len(lengths), dtype=np.int64), position, lengths)
    total = lead + int(lengths.sum())
    return Placement(split_at_rows(every, context_length), -(-total // context_length))


def lay_window(lengths: Int64s, context_length: int, overlap: int, *, drop_tail: bool) -> Placement:
    """Each document alone, in windows that repeat the last `overlap` tokens of the one before.

    `lay_window([7], 4, 1)` -> `0123`, `3456`; a last window that is not full is padded or dropped.
    """
    stride = context_length - overlap
    windows = np.where(lengths > context_length, -(-(lengths - context_length) // stride) + 1, lengths > 0)
    document = np.repeat(np.arange(len(lengths)), windows)
    nth = count_within(windows.astype(np.int64))
    start = nth * stride
    length = np.minimum(lengths[document] - start, context_length)
    fresh = length - np.where(nth > 0, overlap, 0)
    keep = length == context_length if drop_tail else np.ones(len(length), dtype=bool)
    rows = int(keep.sum())
    lost = np.flatnonzero(~keep)
    segments = Segments(document[keep], start[keep], np.arange(rows) * context_length, length[keep])
    return Placement(
        segments,
        rows,
        repeated=int((length - fresh)[keep].sum()),
        dropped_tokens=int(fresh[lost].sum()),
        dropped_documents=int((nth[lost] == 0).sum()),
    )


def lay_pad(lengths: Int64s, context_length: int) -> Placement:
    """Each document starts a row; a long one goes on in the next rows. `lay_pad([3, 6], 5)` -> 3 rows."""
    return lay_window(lengths, context_length, 0, drop_tail=False)


def lay_bestfit(lengths: Int64s, context_length: int, most: int | None = None) -> Placement:
    """Documents whole where they fit, `most` to a row, best fit; a longer one gives full rows and a rest.

    Rows are in the order in which their first bin was opened; within a row the longest item is first.
    """
    items = lay_pad(lengths, context_length).segments
    bins, places = _core.best_fit(np.ascontiguousarray(items.length), context_length, most)
    position = bins * context_length + places
    order = np.argsort(position, kind="stable")
    placed = Segments(items.document, items.start, position, items.length).take(order)
    return Placement(placed, int(bins.max()) + 1 if len(bins) else 0)
