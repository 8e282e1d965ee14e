"""`labels`: the token id; -100, which loss functions leave out, on padding and on what is not learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.packing.column import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.packing.column import Cover

_IGNORED = -100


def _make(cover: Cover, dtype: str) -> NDArray[Any]:
    labels = cover.ids.astype(dtype)
    np.putmask(labels, ~cover.taught, _IGNORED)
    return labels


COLUMN = Column("labels", stored="int32", read="int64", make=_make, masks=True, taught=True)
