"""The Rust core. Flat NumPy arrays go in and come out; every long call releases the GIL."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "JsonlReader",
    "Records",
    "__version__",
    "best_fit",
    "copy_segments",
    "frame_documents",
    "hash_texts",
    "invalid_rows",
    "split_text",
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

# --- records -----------------------------------------------------------------------------------------

@final
class Records:
    """The documents of a block as flat buffers, and what was refused."""

    @property
    def texts(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """UTF-8 bytes and `documents + 1` offsets."""
    @property
    def rows(self) -> NDArray[np.int64]:
        """Record number of each document within the block."""
    @property
    def starts(self) -> NDArray[np.int64]:
        """Offset in the block at which each document's record starts."""
    @property
    def columns(self) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]]:
        """Kinds, bytes and offsets of each column."""
    @property
    def rejects(self) -> list[tuple[str, int, int, bytes]]:
        """The first refused records: reason, row, byte, sample."""
    @property
    def refused(self) -> list[tuple[str, int]]:
        """How many records were refused, by reason."""
    @property
    def replaced(self) -> list[tuple[str, int]]:
        """How many sequences were replaced, by reason."""
    @property
    def rows_read(self) -> int:
        """Records passed, blank and refused ones included."""

@final
class JsonlReader:
    """Reads JSON Lines; a text is made of literal strings and of fields named by lists of keys."""

    def __new__(
        cls, text: list[str | list[str]], columns: list[list[str]], *, limit: int, replace: bool
    ) -> JsonlReader: ...
    def read(self, block: Any, /) -> Records:
        """Reads a block of whole lines."""

def split_text(block: Any, separator: bytes, *, strip_cr: bool, limit: int, replace: bool) -> Records:
    """Splits a block at each separator; an empty one keeps it whole."""

def invalid_rows(data: Any, offsets: NDArray[np.int64], /) -> list[tuple[int, int]]:
    """Rows of a large string array that are not UTF-8, with the offset of the fault."""
