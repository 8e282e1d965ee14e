"""Arrow arrays and our own `Texts` as the buffers that the core borrows; nothing is copied."""

from __future__ import annotations

from typing import Any

from tokenmill.errors import InputError


def is_flat(docs: Any) -> bool:
    """Whether this is `Texts`, or a pyarrow array or chunked array (without importing either for it)."""
    return type(docs).__module__.split(".")[0] == "pyarrow" or _is_texts(docs)


def _is_texts(docs: Any) -> bool:
    return type(docs).__module__ == "tokenmill.base.texts"


def list_chunks(docs: Any) -> list[tuple[Any, Any]]:
    """One `(offsets, data)` or `(views, [data, ...])` for each chunk of a string or binary array."""
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
            "pass the column that holds the text"
        )
    offsets = np.frombuffer(buffers[1], widths[kind]) if buffers[1] else np.zeros(1, widths[kind])
    return offsets[start : start + size + 1], _view_bytes(buffers[2])


def _view_bytes(buffer: Any) -> Any:
    import numpy as np

    return np.frombuffer(buffer if buffer is not None and buffer.size else b"", np.uint8)
