"""NumPy to Arrow over the same memory, without the pandas that `pyarrow.array` imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_arrow(values: NDArray[Any]) -> pa.Array:
    """Return a flat array as Arrow, without a copy if it is contiguous."""
    flat = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def mask_to_arrow(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """Return a mask as Arrow, one bit per value."""
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])
