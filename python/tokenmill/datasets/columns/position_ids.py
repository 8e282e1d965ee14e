"""`position_ids`: 0, 1, 2, … from the start of each document's part in the row; 0 on padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.packing.column import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.packing.column import Cover


def _make(cover: Cover, dtype: str) -> NDArray[Any]:
    return cover.spread(np.zeros_like(cover.lengths), 0, dtype, step=1)


COLUMN = Column("position_ids", stored="int32", read="int64", make=_make)
