"""Which stretch of a row belongs to which document, and the columns that follow from it.

A span is (document, place in the row, length, start in the document). Attention that must not look across
documents takes `position_ids`, `document_ids` or `cu_seqlens` from here, at read time, for any row length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.columns import Cover, find_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.shards import Shards

    Spans = np.ndarray[Any, np.dtype[np.int64]]

# Not a value for each token but one list for a batch, so it is made when rows are read and never stored.
CU_SEQLENS = "cu_seqlens"


class SpanFinder:
    """Finds the spans of any stretch of a dataset's tokens, in either layout."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.layout = shards.manifest.layout

    def find(self, start: int, length: int) -> Spans:
        """The spans of tokens `start..start + length`, places counted from `start`."""
        index, local = self.shards.locate(start)
        found = []
        place = 0
        while place < length:
            take = min(length - place, self.shards.entries[index].tokens - local)
            if take:
                spans = self._find_within(index, local, local + take)
                spans[:, 1] += place - local
                found.append(spans)
            place, index, local = place + take, index + 1, 0
        return np.concatenate(found)

    def _find_within(self, index: int, start: int, end: int) -> Spans:
        entry = self.shards.entries[index]
        if self.layout == "documents":
            spans = _find_document_spans(self.shards.offsets(entry), start, end)
        else:
            spans = _find_segment_spans(self.shards.segments(entry), start, end)
        spans[:, 0] += self.shards.document_starts[index]
        return spans


def _find_document_spans(offsets: NDArray[np.uint64], start: int, end: int) -> Spans:
    # The searched value must be u64 as well: anything else makes NumPy convert the whole mapped index.
    first = int(np.searchsorted(offsets, np.uint64(start), side="right")) - 1
    last = int(np.searchsorted(offsets, np.uint64(end), side="left"))
    bounds = np.clip(offsets[first : last + 1].astype(np.int64), start, end)
    starts = bounds[:-1] - offsets[first:last].astype(np.int64)
    spans = np.stack([np.arange(first, last), bounds[:-1], np.diff(bounds), starts], axis=1)
    return spans[spans[:, 2] > 0]


def _find_segment_spans(segments: NDArray[np.uint64], start: int, end: int) -> Spans:
    positions: Sequence[int] = segments[:, 2]  # type: ignore[assignment]
    first, last = max(0, bisect_right(positions, start) - 1), bisect_left(positions, end)
    chosen = segments[first:last].astype(np.int64)
    begins = np.maximum(chosen[:, 2], start)
    ends = np.minimum(chosen[:, 2] + chosen[:, 3], end)
    starts = chosen[:, 1] + begins - chosen[:, 2]
    spans = np.stack([chosen[:, 0], begins, ends - begins, starts], axis=1)
    return spans[spans[:, 2] > 0]


def make_columns(
    names: Sequence[str], ids: NDArray[Any], per_row: list[Spans], learned: NDArray[np.bool_] | None = None
) -> dict[str, Any]:
    """The columns of some rows `[rows, context_length]`, from the spans of each, and from what is learned."""
    count, length = ids.shape
    places = np.repeat(np.arange(count) * length, [len(spans) for spans in per_row])
    spans = np.concatenate([np.empty((0, 3), dtype=np.int64), *(spans[:, :3] for spans in per_row)])
    taught = None if learned is None else learned.reshape(-1)
    cover = Cover(ids.reshape(-1), spans[:, 0], spans[:, 1] + places, spans[:, 2], taught)
    made: dict[str, Any] = {}
    for column in (find_column(name) for name in names if name != CU_SEQLENS):
        made[column.name] = column.make(cover, column.read).reshape(ids.shape)
    if CU_SEQLENS in names:
        made[CU_SEQLENS] = find_boundaries(cover, length)
        made["max_seqlen"] = int(np.diff(made[CU_SEQLENS]).max(initial=0))
    return made


def find_boundaries(cover: Cover, length: int) -> NDArray[np.int32]:
    """Where attention restarts in flattened rows: at each row, each span and each stretch of padding.

    Two rows of 8, the first with documents of 3 and 5 tokens -> `[0, 3, 8, 16]`.
    """
    rows = np.arange(0, len(cover.ids) + 1, length)
    return np.unique(np.concatenate([rows, cover.positions, cover.positions + cover.lengths])).astype(
        np.int32
    )
