"""Ids that say whether they are learned: an id is below 2^24, so the highest bit of 32 is free.

Rows are cut, carried over and padded as ids alone, and the bit goes wherever its token goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BIT = np.uint32(1 << 31)


def mark(ids: NDArray[Any], learned: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Ids with the bit set where they are learned."""
    return ids.astype(np.uint32) | (learned.astype(np.uint32) << np.uint32(31))


def is_learned(marked: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return where the bit is set."""
    return marked >= BIT


def strip_marks(marked: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the ids without the bit."""
    return marked & np.uint32(BIT - 1)
