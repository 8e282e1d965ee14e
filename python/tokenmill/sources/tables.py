"""Record batches of columns (Parquet, Arrow, datasets in memory) to blocks of documents."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.sources.columns import ArrowColumn, is_text
from tokenmill.sources.model import Block, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tokenmill.sources.fields import Fields, Request

_MAX_LISTED = 100
# No field can have this name, so the id can stand among the columns.
_ID = ""


def batch_to_block(
    batch: pa.RecordBatch, request: Request, first_row: int, before: Callable[[], int] | None = None
) -> Block:
    """One batch to one block; `first_row` is its first record's number within the range.

    `before` counts the records before the range; it is asked only when a record must be named.
    """
    fields, config, where = request.fields, request.config, request.file.url
    texts = _find_texts(batch, fields, where)
    size = int(texts.nbytes)
    replaced = {}
    if config.on_error == "replace" and (invalid := _find_invalid(texts)):
        texts, replaced["invalid_utf8"] = _repair(texts, [row for row, _ in invalid])
    faults = _find_faults(texts, config.max_record_bytes)
    number = 1 + first_row + (before() if faults and before is not None else 0)
    rejects = tuple(
        Reject(reason, f"{where}:{number + row}:{at}", _read_bytes(texts, row, 60).decode("utf-8", "replace"))
        for row, at, reason in faults[:_MAX_LISTED]
    )
    keep = np.ones(len(texts), bool)
    keep[[row for row, _, _ in faults]] = False
    names = (*((_ID,) if fields.id else ()), *fields.columns)
    pairs = zip(names, fields.paths, strict=True)
    arrays = {name: follow_path(batch, path, where) for name, path in pairs}
    rows = np.arange(first_row, first_row + len(texts), dtype=np.int64)
    texts, rows, columns = _select(texts, rows, arrays, keep)
    ids = columns.pop(_ID, None)
    return Block(
        texts=Texts.from_arrow(texts),
        rows=rows,
        ids=ids.labels() if ids else None,
        columns=columns,
        bytes_read=size,
        rows_read=len(keep),
        rejects=rejects,
        refused=dict(Counter(reason for _, _, reason in faults)),
        replaced=replaced,
    )


def cut_batch(batch: pa.RecordBatch, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of about `block_bytes` each."""
    if batch.num_rows == 0:
        return
    step = max(int(batch.num_rows * block_bytes / max(batch.nbytes, 1)), 1)
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)


def _find_faults(texts: pa.LargeStringArray, limit: int) -> list[tuple[int, int, str]]:
    """`(row, byte, reason)` of each text that cannot be used, each row once, in order."""
    faults: list[tuple[int, int, str]] = []
    if texts.null_count:  # else Arrow would import pandas, 0.3 s, to say so
        nulls = texts.is_null().to_numpy(zero_copy_only=False)
        faults += [(int(row), 0, "missing_field") for row in np.flatnonzero(nulls)]
    faults += [
        (int(row), 0, "over_long") for row in np.flatnonzero(np.diff(Texts.from_arrow(texts).offsets) > limit)
    ]
    faults += [(row, at, "invalid_utf8") for row, at in _find_invalid(texts)]
    once = {fault[0]: fault for fault in reversed(faults)}
    return [once[row] for row in sorted(once)]


def _select(
    texts: pa.LargeStringArray, rows: NDArray[np.int64], columns: dict[str, pa.Array], keep: NDArray[np.bool_]
) -> tuple[pa.LargeStringArray, NDArray[np.int64], dict[str, ArrowColumn]]:
    if not keep.all():
        mask = pa.array(keep)
        texts, rows = texts.filter(mask), rows[keep]
        columns = {name: column.filter(mask) for name, column in columns.items()}
    return texts, rows, {name: ArrowColumn(column) for name, column in columns.items()}


def _rows_to_json(batch: pa.RecordBatch, fields: Fields) -> pa.LargeStringArray:
    """Each row as one object of JSON, with the fields that are wanted."""
    names = [name for name in batch.schema.names if name in fields.roots]
    rows = batch.select(names).to_pylist()
    return pa.array([json.dumps(row, default=str) for row in rows], pa.large_string())


def _find_texts(batch: pa.RecordBatch, fields: Fields, where: str) -> pa.LargeStringArray:
    if fields.whole:
        return _rows_to_json(batch, fields)
    parts: list[Any] = []
    for part in fields.text:
        if isinstance(part, str):
            parts.append(pa.scalar(part, pa.large_string()))
        else:
            parts.append(_to_text(follow_path(batch, part, where), ".".join(part), where))
    if len(parts) == 1:
        return parts[0]
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()), null_handling="emit_null")


def _to_text(column: pa.Array, name: str, where: str) -> pa.LargeStringArray:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        # Bytes that say nothing of their encoding: the check below decides.
        wide = column.cast(pa.large_binary())
        validity, ends, data = wide.buffers()
        return pa.LargeStringArray.from_buffers(len(wide), ends, data, validity, -1, wide.offset)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_string())
    if not is_text(kind):
        raise InputError(
            f"{where}: column {name!r} is {kind}, but the text must be a string; name another text_field"
        )
    return column.cast(pa.large_string())


def follow_path(batch: pa.RecordBatch, path: tuple[str, ...], where: str) -> pa.Array:
    """The column that a path leads to, through structs: `("meta", "lang")`."""
    try:
        column = batch.column(path[0])
        for name in path[1:]:
            import pyarrow.compute as pc

            column = pc.struct_field(column, name)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        known = ", ".join(batch.schema.names)
        raise InputError(f"{where}: no column {'.'.join(path)!r}; it has {known}") from error
    return column


def _find_invalid(texts: pa.LargeStringArray) -> list[tuple[int, int]]:
    flat = Texts.from_arrow(texts)
    return _core.invalid_rows(flat.data, np.asarray(flat.offsets))


def _read_bytes(texts: pa.LargeStringArray, row: int, most: int | None = None) -> bytes:
    flat = Texts.from_arrow(texts)
    return flat.data[flat.offsets[row] : flat.offsets[row + 1]][:most].tobytes()


def _repair(texts: pa.LargeStringArray, rows: list[int]) -> tuple[pa.LargeStringArray, int]:
    """The same texts with U+FFFD where `rows` are not UTF-8, and how many were put in."""
    import pyarrow.compute as pc

    count, repaired = 0, []
    for row in rows:
        raw = _read_bytes(texts, row)
        text = raw.decode("utf-8", "replace")
        count += text.count("\ufffd") - raw.count("\ufffd".encode())
        repaired.append(text)
    mask = np.zeros(len(texts), bool)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(repaired, pa.large_string())), count
