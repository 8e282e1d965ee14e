"""Documents that are longer than a row: dropped, cut at their end or at their start, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.learned import is_learned
from tokenmill.datasets.documents import select_documents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.receipt import Account

TOO_LONG = "too_long"


def cut_long(
    ids: Any, offsets: Any, length: int, policy: str, account: Account, *, marked: bool
) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Documents of at most `length` tokens, and which of those given they are.

    A conversation of which nothing learned is left goes as a whole.
    """
    ids, offsets = np.asarray(ids), np.asarray(offsets)
    lengths = np.diff(offsets)
    kept = np.ones(len(lengths), bool)
    if not (lengths > length).any():
        return ids, offsets, kept
    starts, ends = offsets[:-1].copy(), offsets[1:].copy()
    long = lengths > length
    if policy == "truncate":
        ends[long] = starts[long] + length
    elif policy == "keep-last":
        starts[long] = ends[long] - length
    else:
        kept = ~long
    taught = np.concatenate([[0], np.cumsum(is_learned(ids))]) if marked else np.zeros(len(ids) + 1, np.int64)
    if marked:
        kept &= ~long | (taught[ends] > taught[starts])
    account.documents_dropped[TOO_LONG] += int((~kept).sum())
    left = np.where(kept, ends - starts, 0)
    account.tokens_dropped[TOO_LONG] += int((lengths - left).sum())
    account.learned_dropped[TOO_LONG] += int(
        (np.diff(taught[offsets]) - np.where(kept, taught[ends] - taught[starts], 0)).sum()
    )
    inside = np.repeat(starts, lengths)
    places = np.arange(offsets[0], offsets[-1])
    chosen = (places >= inside) & (places < np.repeat(ends, lengths))
    shortened = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
    cut = ids[offsets[0] : offsets[-1]][chosen]
    return *select_documents(cut, shortened, kept), kept
