"""Which records some documents were, on their way to be written beside the shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Part = int | NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Origins:
    """The origin of some documents: the part of their unit, the record's number in that part, its id.

    `part` is one number, or one for each document.
    """

    part: Part
    rows: memoryview | NDArray[np.int64]
    ids: pa.LargeStringArray | None = None

    def take(self, kept: NDArray[np.bool_] | None) -> Origins:
        """Those of the documents that a mask keeps; no mask keeps all."""
        if kept is None or kept.all():
            return self
        rows = np.asarray(self.rows)[kept]
        part = self.part if isinstance(self.part, int) else self.part[kept]
        if self.ids is None:
            return Origins(part, rows)
        from tokenmill.base.arrays import mask_to_arrow  # here, since it brings Arrow along

        return Origins(part, rows, self.ids.filter(mask_to_arrow(kept)))

    def slice(self, start: int, count: int) -> Origins:
        """Those of some neighbours."""
        ids = self.ids.slice(start, count) if self.ids is not None else None
        part = self.part if isinstance(self.part, int) else self.part[start : start + count]
        return Origins(part, self.rows[start : start + count], ids)
