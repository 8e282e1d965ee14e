"""Documents whose ids an earlier job made, put between those that are encoded anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.sources.model import Known


def weave(known: Known, ids: Any, offsets: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All documents in order: `ids` and `offsets` are the stale ones, encoded anew."""
    fresh, ends = np.asarray(ids), np.asarray(offsets)
    lengths = np.diff(known.offsets)
    lengths[known.stale] = np.diff(ends)
    places = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    out = np.empty(int(places[-1]), fresh.dtype)
    new, old = known.stale, ~known.stale
    _core.copy_segments(fresh, ends[:-1], places[:-1][new], lengths[new], out)
    same = np.ascontiguousarray(known.ids, fresh.dtype)
    _core.copy_segments(same, known.offsets[:-1][old], places[:-1][old], lengths[old], out)
    return out, places
