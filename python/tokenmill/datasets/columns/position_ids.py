"""`position_ids`: 0, 1, 2, … from the start of each document's part in the row; 0 on padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.datasets.packing.column import Column
from tokenmill.datasets.packing.segments import count_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.packing.column import Cover


def _make(cover: Cover, dtype: str) -> NDArray[Any]:
    return cover.spread(count_within(cover.lengths), 0, dtype)


COLUMN = Column("position_ids", stored="int32", read="int64", make=_make)
