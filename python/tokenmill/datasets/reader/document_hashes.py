"""One hash for each document of a dataset, of its token ids, to compare datasets by what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core
from tokenmill.datasets.reader.documents import read_documents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.reader.dataset import Dataset

# Documents compared at once, 40 bytes each; more are compared in parts, by their hashes.
AT_ONCE = 1 << 23


def compare_documents(before: Dataset, after: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of documents of `before` that are gone, and of `after` that came; each copy counts."""
    parts = max(1, -(-max(len(before), len(after)) // AT_ONCE))
    gone, came = [], []
    for part in range(parts):
        mine, theirs = (_hash(dataset, part, parts) for dataset in (before, after))
        gone.append(_find_missing(*mine, theirs[0]))
        came.append(_find_missing(*theirs, mine[0]))
    return np.sort(np.concatenate(gone)), np.sort(np.concatenate(came))


def _hash(dataset: Dataset, part: int, parts: int) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """The hashes of a part of the documents, sorted, with their numbers; equal ones by rising number."""
    hashes, numbers = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int64)]
    for index in range(len(dataset.shards.entries)):
        base = dataset.shards.document_starts[index]
        for first, ids, offsets in read_documents(dataset.shards, index):
            # Ids of two bytes and of four are the same ids.
            data = ids.astype("<u4").view(np.uint8).data
            found = _core.hash_texts(data, np.ascontiguousarray(offsets * 4)).reshape(-1, 2)
            mine = np.flatnonzero(found[:, 1] % np.uint64(parts) == part)
            hashes.append(found[mine])
            numbers.append(base + first + mine)
    every, number = np.concatenate(hashes), np.concatenate(numbers)
    order = np.lexsort((number, every[:, 0], every[:, 1]))
    rows = np.ascontiguousarray(every[order])
    return rows.view("V16").reshape(-1), number[order]


def _find_missing(
    mine: NDArray[np.void], numbers: NDArray[np.int64], theirs: NDArray[np.void]
) -> NDArray[np.int64]:
    """Those of mine that theirs has not, or not so often: of copies the last."""
    if not len(mine):
        return numbers
    values, starts, counts = np.unique(mine, return_index=True, return_counts=True)
    there, have = np.unique(theirs, return_counts=True)
    place = np.searchsorted(there, values) if len(there) else np.zeros(len(values), np.int64)
    close = np.minimum(place, max(0, len(there) - 1))
    same = there[close] == values if len(there) else np.zeros(len(values), bool)
    left = np.where(same, have[close] if len(there) else 0, 0)
    extra = np.maximum(0, counts - left)
    picked = [
        numbers[start + count - more : start + count]
        for start, count, more in zip(starts, counts, extra, strict=True)
        if more
    ]
    return np.concatenate([numbers[:0], *picked])
