"""Pass documents between the stages of a job: flat texts, ids with a loss mask, and read-ahead.

Texts are bytes and offsets, as the core takes them. Arrow's large strings have the same layout and cross both
ways without a copy. Arrow and NumPy are imported where they are used: most jobs need no Arrow, whose import
takes as long as encoding twenty megabytes, and training needs no NumPy, a quarter of its peak memory.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Item = TypeVar("Item")
# An id is below 2^24, so the highest bit of 32 can carry the loss mask through cutting, packing and padding.
BIT = 1 << 31


def mark(ids: NDArray[Any], learned: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the ids with the highest bit set where the loss mask is True."""
    import numpy as np

    return ids.astype(np.uint32) | (learned.astype(np.uint32) << np.uint32(31))


def is_learned(marked: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return the loss mask of marked ids."""
    return marked >= BIT


def strip_marks(marked: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the ids without the loss mask bit."""
    import numpy as np

    return marked & np.uint32(BIT - 1)


def to_arrow(values: NDArray[Any]) -> pa.Array:
    """Return a flat array as Arrow, without a copy if it is contiguous, and without importing pandas."""
    import numpy as np
    import pyarrow as pa

    flat = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def prefetch(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """Yield the same items, up to `depth` of them computed ahead in a thread.

    An error is raised in place of the item. When the consumer stops early, the thread
    ends and `items` is closed.
    """
    end: Any = object()
    # Found now: a generator may be closed after the interpreter has cleared this module.
    close = getattr(items, "close", int)
    with ThreadPoolExecutor(1, "tokenmill-read-ahead") as pool:
        ahead = deque(pool.submit(next, items, end) for _ in range(max(depth, 1)))
        try:
            while (item := ahead.popleft().result()) is not end:
                ahead.append(pool.submit(next, items, end))
                yield item
        finally:
            for future in ahead:
                future.cancel()
            pool.shutdown()
            close()


class Texts:
    """Document `i` is `data[offsets[i]:offsets[i + 1]]`, in valid UTF-8.

    >>> Texts(b"onetwo", array("q", [0, 3, 6])).to_pylist()
    ['one', 'two']
    """

    __slots__ = ("data", "offsets")

    data: memoryview
    offsets: memoryview

    def __init__(self, data: Any = b"", offsets: Any = bytes(8)) -> None:
        """Wrap `data` and `offsets`: buffers of bytes and of int64, or of the bytes of those."""
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
        """Return the texts that a mask selects, without a copy if it selects all; None selects all."""
        if kept is None or kept.all():
            return self
        import numpy as np

        lengths = np.diff(np.asarray(self.offsets))
        data = np.asarray(self.data[self.offsets[0] : self.offsets[-1]])[np.repeat(kept, lengths)]
        return Texts(data, np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64))

    def __getitem__(self, place: int) -> str:
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes().decode()

    def read_start(self, place: int, most: int) -> str:
        """Return up to `most` characters of a text, reading at most four bytes for each."""
        start, end = self.offsets[place], self.offsets[place + 1]
        return self.data[start : min(end, start + 4 * most)].tobytes().decode("utf-8", "ignore")[:most]

    def __iter__(self) -> Iterator[str]:
        return (self.data[start:end].tobytes().decode() for start, end in pairwise(self.offsets))

    def to_pylist(self) -> list[str]:
        """Return a list of strings."""
        return list(self)


def _view(memory: Any, kind: Literal["B", "q"]) -> memoryview:
    """Return a buffer as a view of format `kind`; other formats (NumPy's int64 is `l`) are cast."""
    view = memoryview(memory)
    if view.format == kind:
        return view
    return view.cast("B").cast(kind) if view.nbytes else memoryview(array(kind))
