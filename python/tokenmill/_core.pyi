"""The Rust core. Flat NumPy arrays go in and come out; every long call releases the GIL."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "__version__",
    "best_fit",
    "copy_segments",
    "frame_documents",
    "hash_texts",
]

__version__: str

# --- packing -----------------------------------------------------------------------------------------

def frame_documents(
    ids: NDArray[Any], offsets: NDArray[np.int64], bos: int | None, eos: int | None, wide: bool
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Documents with BOS and EOS around them, as uint32 if `wide`, else uint16."""

def copy_segments(
    ids: NDArray[Any],
    from_: NDArray[np.int64],
    to: NDArray[np.int64],
    length: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Copies `ids[from_:from_ + length]` to `out[to:to + length]` for every segment."""

def best_fit(lengths: NDArray[np.int64], capacity: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bin of every item and its place in it: best fit, longest first."""

def hash_texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """XXH3-128 of every text `data[offsets[d]:offsets[d + 1]]`, as (low, high) in one flat array."""
