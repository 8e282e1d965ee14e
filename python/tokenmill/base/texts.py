"""The texts of some documents, flat: the one form between sources, filters, counting and encoding.

Bytes and offsets over memory that somebody else allocated, as the core takes them. Arrow's large strings have
the same layout and cross both ways without a copy, but most jobs need no Arrow, whose import takes as long as
the core takes for twenty megabytes, and no NumPy, which sees the same memory where it is needed.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray


class Texts:
    """Document `i` is `data[offsets[i]:offsets[i + 1]]`, in valid UTF-8.

    >>> Texts(b"onetwo", np.array([0, 3, 6])).to_pylist()
    ['one', 'two']
    """

    __slots__ = ("data", "offsets")

    data: memoryview
    offsets: memoryview

    def __init__(self, data: Any = b"", offsets: Any = bytes(8)) -> None:
        """`data` and `offsets` are anything with a buffer of bytes and of int64, or of the bytes of those."""
        self.data = _view(data, "B")
        self.offsets = _view(offsets, "q")

    @classmethod
    def from_arrow(cls, array: pa.LargeStringArray) -> Texts:
        """Return the texts of an array of large strings without nulls."""
        if not len(array):
            return cls()
        _, offsets, data = array.buffers()
        texts = cls(data if data is not None and data.size else b"", offsets)
        texts.offsets = texts.offsets[array.offset : array.offset + len(array) + 1]
        return texts

    def to_arrow(self) -> pa.LargeStringArray:
        """Return an Arrow array."""
        import pyarrow as pa

        buffers = [pa.py_buffer(part) for part in (self.offsets, self.data)]
        return pa.LargeStringArray.from_buffers(len(self), *buffers)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of all texts."""
        return int(self.offsets[-1]) - int(self.offsets[0])

    def slice(self, start: int, count: int | None = None) -> Texts:
        """Return consecutive texts over the same memory."""
        stop = None if count is None else start + count + 1
        return Texts(self.data, self.offsets[start:stop])

    def filter(self, kept: NDArray[np.bool_] | None) -> Texts:
        """Those that a mask keeps, copied unless all are; no mask keeps all."""
        if kept is None or kept.all():
            return self
        lengths = np.diff(self.offsets)
        data = np.asarray(self.data[self.offsets[0] : self.offsets[-1]])[np.repeat(kept, lengths)]
        return Texts(data, np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64))

    def __getitem__(self, place: int) -> str:
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes().decode()

    def read_start(self, place: int, most: int) -> str:
        """Up to `most` characters of a text; four bytes hold any one of them."""
        start, end = self.offsets[place], self.offsets[place + 1]
        return self.data[start : min(end, start + 4 * most)].tobytes().decode("utf-8", "ignore")[:most]

    def __iter__(self) -> Iterator[str]:
        return (self.data[start:end].tobytes().decode() for start, end in pairwise(self.offsets))

    def to_pylist(self) -> list[str]:
        """Return a list of strings."""
        return list(self)


def _view(memory: Any, kind: Literal["B", "q"]) -> memoryview:
    """Flat memory as items of a kind, whatever its owner calls them (NumPy's int64 is `l`)."""
    view = memoryview(memory)
    if view.format == kind:
        return view
    return view.cast("B").cast(kind) if view.nbytes else memoryview(array(kind))
