"""Which stretch of a row belongs to which document, and the columns that follow from it.

A span is (document, place in the row, length). Attention that must not look across documents takes
`position_ids`, `document_ids` or `cu_seqlens` from here, at read time, for any row length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.shards import Shards

    Spans = np.ndarray[Any, np.dtype[np.int64]]

COLUMNS = ("attention_mask", "labels", "position_ids", "document_ids", "cu_seqlens")
IGNORED_LABEL = -100


class SpanFinder:
    """Finds the spans of any stretch of a dataset's tokens, in either layout."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.layout = shards.manifest.layout
        self._first_document = [0, *accumulate(entry.documents for entry in shards.entries)]

    def find(self, start: int, length: int) -> Spans:
        """The spans of tokens `start..start + length`, places counted from `start`."""
        index, local = self.shards.locate(start)
        found = []
        place = 0
        while place < length:
            take = min(length - place, self.shards.entries[index].tokens - local)
            if take:
                spans = self._within(index, local, local + take)
                spans[:, 1] += place - local
                found.append(spans)
            place, index, local = place + take, index + 1, 0
        return np.concatenate(found)

    def _within(self, index: int, start: int, end: int) -> Spans:
        entry = self.shards.entries[index]
        if self.layout == "documents":
            spans = _document_spans(self.shards.offsets(entry), start, end)
        else:
            spans = _segment_spans(self.shards.segments(entry), start, end)
        spans[:, 0] += self._first_document[index]
        return spans


def _document_spans(offsets: NDArray[np.uint64], start: int, end: int) -> Spans:
    # The searched value must be u64 as well: anything else makes NumPy convert the whole mapped index.
    first = int(np.searchsorted(offsets, np.uint64(start), side="right")) - 1
    last = int(np.searchsorted(offsets, np.uint64(end), side="left"))
    bounds = np.clip(offsets[first : last + 1].astype(np.int64), start, end)
    spans = np.stack([np.arange(first, last), bounds[:-1], np.diff(bounds)], axis=1)
    return spans[spans[:, 2] > 0]


def _segment_spans(segments: NDArray[np.uint64], start: int, end: int) -> Spans:
    positions: Sequence[int] = segments[:, 2]  # type: ignore[assignment]
    first, last = max(0, bisect_right(positions, start) - 1), bisect_left(positions, end)
    chosen = segments[first:last].astype(np.int64)
    begins = np.maximum(chosen[:, 2], start)
    ends = np.minimum(chosen[:, 2] + chosen[:, 3], end)
    spans = np.stack([chosen[:, 0], begins, ends - begins], axis=1)
    return spans[spans[:, 2] > 0]


def fill(out: dict[str, Any], row: int, ids: NDArray[Any], spans: Spans) -> None:
    """Write the columns of one row into the batch's arrays."""
    covered = _covered(spans, len(ids))
    if "attention_mask" in out:
        out["attention_mask"][row] = covered
    if "labels" in out:
        out["labels"][row] = np.where(covered, ids.astype(np.int64), IGNORED_LABEL)
    if "position_ids" in out:
        out["position_ids"][row] = 0
        out["position_ids"][row][covered] = _count_up(spans[:, 2])
    if "document_ids" in out:
        out["document_ids"][row] = -1
        out["document_ids"][row][covered] = np.repeat(spans[:, 0], spans[:, 2])


def _covered(spans: Spans, length: int) -> NDArray[np.bool_]:
    steps = np.zeros(length + 1, dtype=np.int8)
    np.add.at(steps, spans[:, 1], 1)
    np.add.at(steps, spans[:, 1] + spans[:, 2], -1)
    return np.cumsum(steps[:-1]).astype(np.bool_)


def _count_up(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """`[2, 3]` -> `[0, 1, 0, 1, 2]`."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(starts, lengths)


def boundaries(spans: Spans, length: int) -> NDArray[np.int64]:
    """Where attention restarts in a row: each span's beginning, and that of the padding between them."""
    marks = np.concatenate([[0, length], spans[:, 1], spans[:, 1] + spans[:, 2]])
    return np.unique(marks)


def cu_seqlens(per_row: list[NDArray[np.int64]], length: int) -> NDArray[np.int32]:
    """One list for a flattened batch: `[0, 3, 8]` and `[0, 8]` with rows of 8 -> `[0, 3, 8, 16]`."""
    joined = [marks[1:] + row * length for row, marks in enumerate(per_row)]
    return np.concatenate([[0], *joined]).astype(np.int32)
