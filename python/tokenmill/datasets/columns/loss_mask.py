"""`loss_mask`: 1 on a token that is learned, 0 on any other and on padding.

It is the one column that segments do not determine: where it is stored, documents say what is learned.
"""

from __future__ import annotations

from tokenmill.datasets.packing.column import Column

LOSS_MASK = "loss_mask"
COLUMN = Column(
    LOSS_MASK,
    stored="int8",
    read="int8",
    make=lambda cover, dtype: cover.taught.astype(dtype),
    masks=True,
    taught=True,
)
