"""Documents in (str, bytes, Arrow arrays) and their ids out, as flat arrays without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        """Return the ids of one document, as a view of the flat array."""
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
        """Return one Python list of ints per document."""
        from tokenmill._core import ids_to_lists

        return ids_to_lists(self.ids, self.offsets)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.LargeListArray` of uint16 or uint32 over the same memory."""
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.ids))


def flatten(rows: list[list[int]], id_limit: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return rows of ids as flat ids, uint16 if the limit allows it, and offsets."""
    import numpy as np

    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    dtype = np.uint16 if id_limit <= 1 << 16 else np.uint32
    return np.fromiter((token for row in rows for token in row), dtype, int(offsets[-1])), offsets


def check_text(doc: str | bytes, index: int) -> str:
    """Return a document as a str that UTF-8 can encode; raise `InputError` with the position otherwise."""
    if isinstance(doc, bytes):
        try:
            return doc.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"document {index}: invalid UTF-8 at byte {error.start}; decode it first"
            ) from error
    if not isinstance(doc, str):
        raise TypeError(f"document {index}: expected str or bytes, found {type(doc).__name__}")
    try:
        doc.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"document {index}: the text contains a lone surrogate at character {error.start}, which UTF-8 "
            "cannot encode; replace it first"
        ) from error
    return doc


def check_texts(docs: Iterable[str | bytes], special: str, tokens: Iterable[str]) -> list[str]:
    """Return valid texts; raise `InputError` for the string of a special token if those are forbidden."""
    texts = [check_text(doc, index) for index, doc in enumerate(docs)]
    for index, text in enumerate(texts) if special == "forbid" else ():
        for token in tokens:
            if token in text:
                raise InputError(
                    f"document {index}: the text contains the special token {token!r} at character "
                    f"{text.index(token)} and special='forbid'; use special='text' or 'parse'"
                )
    return texts


def is_arrow(docs: Any) -> bool:
    """Return True for a pyarrow array, chunked or not, and for our `Texts`; imports neither."""
    return type(docs).__module__.split(".")[0] == "pyarrow" or _is_texts(docs)


def _is_texts(docs: Any) -> bool:
    return type(docs).__module__ == "tokenmill.base.texts"


def list_chunks(docs: Any) -> list[tuple[Any, Any]]:
    """Return one `(offsets, data)` or `(views, [data, ...])` for each chunk of a string or binary array."""
    if _is_texts(docs):
        return [(docs.offsets, docs.data)]
    chunks = docs.chunks if hasattr(docs, "chunks") else [docs]
    start, out = 0, []
    for chunk in chunks:
        if chunk.null_count:
            row = start + chunk.is_null().index(True).as_py()
            raise InputError(
                f"document {row} is null; a null has no tokens: drop it or fill it, e.g. array.fill_null('')"
            )
        out.append(_take_buffers(chunk))
        start += len(chunk)
    return out


def _take_buffers(chunk: Any) -> tuple[Any, Any]:
    import numpy as np

    kind = str(chunk.type)
    if kind.startswith(("dictionary", "extension")):
        raise InputError(
            f"found an Arrow array of {kind}; cast it first, e.g. array.cast(pyarrow.large_string())"
        )
    buffers, start, size = chunk.buffers(), chunk.offset, len(chunk)
    if kind in {"string_view", "binary_view"}:
        views = _view_bytes(buffers[1])[16 * start : 16 * (start + size)]
        return views, [_view_bytes(buffer) for buffer in buffers[2:]]
    widths = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}
    if kind not in widths:
        raise InputError(
            f"found an Arrow array of {kind}; expected string, binary, or their large or view forms: "
            "pass the column with the text"
        )
    offsets = np.frombuffer(buffers[1], widths[kind]) if buffers[1] else np.zeros(1, widths[kind])
    return offsets[start : start + size + 1], _view_bytes(buffers[2])


def _view_bytes(buffer: Any) -> Any:
    import numpy as np

    return np.frombuffer(buffer if buffer is not None and buffer.size else b"", np.uint8)
