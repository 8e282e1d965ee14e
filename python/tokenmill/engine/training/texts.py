"""Texts in memory as the flat blocks that counting takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

BLOCK_BYTES = 8 << 20


def blocks_of(inputs: Any) -> Iterator[pa.LargeStringArray]:
    """An Arrow array, a table or HF dataset with a `text` column, or an iterable of str, in blocks."""
    column = _column(inputs)
    if column is not None:
        for chunk in getattr(column, "chunks", [column]):
            yield _as_large(chunk)
    elif hasattr(inputs, "column_names") and hasattr(inputs, "iter"):
        name = _text_column(list(inputs.column_names or ["text"]))
        for batch in inputs.iter(batch_size=1000):
            yield from _packed(batch[name])
    else:
        yield from _packed(inputs)


def _column(inputs: Any) -> Any | None:
    if isinstance(inputs, pa.Array | pa.ChunkedArray):
        return inputs
    if isinstance(inputs, pa.Table | pa.RecordBatch):
        return inputs.column(_text_column(inputs.schema.names))
    return None


def _text_column(names: list[str]) -> str:
    if "text" in names:
        return "text"
    if len(names) == 1:
        return names[0]
    raise InputError(f"no column 'text' among {', '.join(names)}; pass the column that holds the text")


def _as_large(chunk: pa.Array) -> pa.LargeStringArray:
    if not (
        pa.types.is_string(chunk.type)
        or pa.types.is_large_string(chunk.type)
        or chunk.type == pa.string_view()
    ):
        raise InputError(
            f"an Arrow array of {chunk.type}; expected strings: pass the column that holds the text"
        )
    return chunk.drop_null().cast(pa.large_string())


def _packed(texts: Iterable[Any]) -> Iterator[pa.LargeStringArray]:
    parts: list[bytes] = []
    size = 0
    for number, text in enumerate(texts):
        part = _encoded(text, number)
        parts.append(part)
        size += len(part)
        if size >= BLOCK_BYTES:
            yield _array(parts)
            parts, size = [], 0
    if parts:
        yield _array(parts)


def _encoded(text: Any, number: int) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"text {number} has a lone surrogate at character {error.start}, which no UTF-8 can spell; "
                "repair it first, e.g. text.encode('utf-8', 'replace').decode()"
            ) from error
    raise InputError(f"text {number} is {type(text).__name__}; expected str")


def _array(parts: list[bytes]) -> pa.LargeStringArray:
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))
    return pa.LargeStringArray.from_buffers(len(parts), *buffers)


def flat(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(bytes, offsets) of an array of texts, borrowed."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    empty = data is None or not data.size
    return np.empty(0, np.uint8) if empty else np.frombuffer(data, np.uint8), ends
