"""NumPy to Arrow over the same memory, without the pandas that `pyarrow.array` imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_arrow(values: NDArray[Any]) -> pa.Array:
    """A flat array of numbers as Arrow, without a copy where it is contiguous."""
    flat = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def mask_to_arrow(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """A mask as Arrow, where a boolean is one bit."""
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])
