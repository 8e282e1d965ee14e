"""The documents of a shard one after another, flat, whether they are stored whole or cut into rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.learned import mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.shards import Shards

    Int64s = NDArray[np.int64]

# Tokens handed over at once: enough to be quick, little enough to be held several times.
AT_ONCE = 1 << 20


def read_documents(
    shards: Shards, index: int, at_once: int = AT_ONCE, *, marked: bool = False
) -> Iterator[tuple[int, NDArray[Any], Int64s]]:
    """Documents `first..first + len(offsets) - 1` of a shard as `(first, ids, offsets)`, offsets from 0.

    A document that was cut is put together again, without what an overlap repeats. Ids can come `marked` by
    what is learned, where the dataset says that.
    """
    stored = shards.tokens(index)
    # The core takes the machine's own byte order, which is nearly always that of the files: then no copy.
    own = stored.dtype.newbyteorder("=")
    tokens = stored.view(own) if sys.byteorder == "little" else stored.astype(own)
    if marked:
        tokens = mark(tokens, shards.read_learned(shards.token_starts[index], len(tokens)))
        own = tokens.dtype
    if shards.manifest.layout == "documents":
        offsets = shards.offsets(shards.entries[index]).astype(np.int64)
        for first, last in _group(offsets, at_once):
            yield first, tokens[offsets[first] : offsets[last]], offsets[first : last + 1] - offsets[first]
        return
    segments = shards.segments(shards.entries[index]).astype(np.int64)
    document, begin, length = _drop_overlap(segments)
    sizes = np.bincount(document, weights=length, minlength=shards.entries[index].documents).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    for first, last in _group(offsets, at_once):
        low, high = np.searchsorted(document, [first, last])
        mine = np.ascontiguousarray(length[low:high])
        places = np.ascontiguousarray(np.cumsum(mine) - mine)
        ids = np.empty(int(offsets[last] - offsets[first]), dtype=own)
        _core.copy_segments(tokens, np.ascontiguousarray(begin[low:high]), places, mine, ids)
        yield first, ids, offsets[first : last + 1] - offsets[first]


def _drop_overlap(segments: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """(document, place in the shard, length) of each stretch, in the order of documents and their tokens."""
    document, start, position, length = segments[np.lexsort((segments[:, 1], segments[:, 0]))].T
    ends = start + length
    again = np.zeros_like(length)
    same = document[1:] == document[:-1]
    again[1:][same] = np.minimum(np.maximum(0, ends[:-1] - start[1:])[same], length[1:][same])
    return document, position + again, length - again


def _group(offsets: Int64s, at_once: int) -> Iterator[tuple[int, int]]:
    """Neighbours of about so many tokens together: `(first, last + 1)`."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + at_once, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last
