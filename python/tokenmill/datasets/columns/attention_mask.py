"""`attention_mask`: 1 on a token, 0 on padding."""

from __future__ import annotations

from tokenmill.datasets.packing.column import Column

COLUMN = Column(
    "attention_mask",
    stored="int8",
    read="int8",
    make=lambda cover, dtype: cover.covered.astype(dtype),
    masks=True,
)
