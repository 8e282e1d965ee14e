"""Where documents are: the rows of a dataset that hold something of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.reader.rows import Rows

    Int64s = NDArray[np.int64]


def find_rows(rows: Rows, documents: Int64s) -> Int64s:
    """The numbers of all rows in which a token of these documents is, rising, each once."""
    shards = rows.dataset.shards
    starts = np.array(shards.document_starts)
    documents = documents[documents < starts[-1]]
    homes = np.searchsorted(starts, documents, side="right") - 1
    found = [np.empty(0, dtype=np.int64)]
    for shard in np.unique(homes).tolist():
        local = documents[homes == shard] - starts[shard]
        begins, ends = _find_stretches(rows, shard, local)
        found.append(
            _find_rows_between(rows, shards.token_starts[shard] + begins, shards.token_starts[shard] + ends)
        )
    return np.unique(np.concatenate(found))


def _find_stretches(rows: Rows, shard: int, local: Int64s) -> tuple[Int64s, Int64s]:
    """Where the tokens of some documents of a shard begin and end in it; none are empty."""
    shards = rows.dataset.shards
    entry = shards.entries[shard]
    if shards.manifest.layout == "documents":
        offsets = shards.offsets(entry)
        begins, ends = offsets[local].astype(np.int64), offsets[local + 1].astype(np.int64)
    else:
        segments = shards.segments(entry)
        mine = segments[np.isin(segments[:, 0], local.astype(np.uint64))].astype(np.int64)
        begins, ends = mine[:, 2], mine[:, 2] + mine[:, 3]
    some = ends > begins
    return begins[some], ends[some]


def _find_rows_between(rows: Rows, begins: Int64s, ends: Int64s) -> Int64s:
    """Row i has tokens `i * stride .. i * stride + context_length`; which rows meet which stretch."""
    stride = rows.context_length - rows.overlap
    first = np.maximum(0, (begins - rows.context_length) // stride + 1)
    last = np.minimum((ends - 1) // stride, len(rows) - 1)
    counts = np.maximum(0, last - first + 1)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    found: Int64s = np.repeat(first, counts) + within
    return found
