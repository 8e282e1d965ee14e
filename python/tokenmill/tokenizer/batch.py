"""The ids of many documents in one flat array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


class TokenBatch:
    """Flat `ids` (uint16 or uint32) and `offsets` (int64): document `i` is `ids[offsets[i]:offsets[i + 1]]`.

    >>> import numpy as np
    >>> TokenBatch(np.array([5, 6, 7], np.uint16), np.array([0, 2, 3])).to_lists()
    [[5, 6], [7]]
    """

    __slots__ = ("ids", "offsets")

    ids: NDArray[np.uint16] | NDArray[np.uint32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: NDArray[Any], offsets: NDArray[Any]) -> None:
        self.ids = ids
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        """The ids of one document, as a view of the flat array."""
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"there is no document {index} in a batch of {size}")
        index %= size
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for start, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.ids[start:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenBatch):
            return NotImplemented
        import numpy as np

        return np.array_equal(self.ids, other.ids) and np.array_equal(self.offsets, other.offsets)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TokenBatch({len(self)} documents, {len(self.ids)} ids, {self.ids.dtype})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each document."""
        import numpy as np

        return np.diff(self.offsets)

    def to_lists(self) -> list[list[int]]:
        """One Python list of ints per document."""
        from tokenmill._core import ids_to_lists

        return ids_to_lists(self.ids, self.offsets)

    def to_arrow(self) -> Any:
        """A `pyarrow.LargeListArray` of uint16 or uint32 over the same memory."""
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.ids))
