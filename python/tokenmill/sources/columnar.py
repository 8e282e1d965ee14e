"""Parquet and Arrow files and tables in memory: ranges of rows, read a bounded batch at a time."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError, TokenmillError
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.model import Block, Range, Reject
from tokenmill.sources.raw import RawFile
from tokenmill.sources.records import rows_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.fields import Fields, Request
    from tokenmill.sources.model import InputFile
    from tokenmill.sources.where import ArrowColumn

_MAX_BATCH_ROWS = 65536
_READ_BYTES = 1 << 20
_MAX_LISTED = 100
# No field can have this name, so the id can stand among the columns.
_ID = ""


@contextmanager
def _open(file: InputFile) -> Iterator[Any]:
    """The open file; what Arrow says about it becomes an error that names it."""
    with closing(RawFile(file)) as raw:
        try:
            yield pa.PythonFile(raw, mode="r")
        except TokenmillError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise FileFaultError(
                "damaged", f"{file.url}:{raw.tell()}", f"{error} (read as {file.format})"
            ) from error


def _open_parquet(source: Any) -> Any:
    # Imported here: a job on other formats starts sooner without.
    import pyarrow.parquet as pq

    # Pages are read through a small buffer, not a whole column of a row group at once.
    return pq.ParquetFile(source, pre_buffer=False, buffer_size=_READ_BYTES)


def list_parquet_fields(file: InputFile, _config: SourceConfig) -> tuple[list[str], list[str]]:
    """Columns of strings, and all columns."""
    with _open(file) as source:
        return _list_fields(_open_parquet(source).schema_arrow)


def _list_fields(schema: pa.Schema) -> tuple[list[str], list[str]]:
    return [field.name for field in schema if is_text(field.type)], schema.names


def cut_groups(file: InputFile, unit_bytes: int) -> list[Range]:
    """Ranges of row groups, by their decoded bytes."""
    with _open(file) as source:
        metadata = _open_parquet(source).metadata
        sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    return _cut_by_size("groups", sizes, unit_bytes)


def _cut_by_size(kind: Literal["groups", "batches"], sizes: list[int], unit_bytes: int) -> list[Range]:
    """Neighbours together until they reach `unit_bytes`: sizes 6, 6, 6 in units of 10 -> [0, 2), [2, 3)."""
    found: list[Range] = []
    start = total = 0
    for at, size in enumerate(sizes):
        total += size
        if total >= unit_bytes or at + 1 == len(sizes):
            found.append(Range(kind, start, at + 1, total))
            start, total = at + 1, 0
    return found


def read_parquet(request: Request) -> Iterator[Block]:
    """Blocks of the row groups of the range; only the columns asked for are read."""
    file, part, roots = request.file, request.part, request.fields.roots
    with _open(file) as source:
        parquet = _open_parquet(source)
        names = parquet.schema_arrow.names
        columns = [name for name in roots if name in names]
        row = 0
        groups = parquet.metadata
        stop = part.stop if part.kind == "groups" else groups.num_row_groups

        def before() -> int:
            return sum(groups.row_group(at).num_rows for at in range(part.start))

        for group in range(part.start, stop):
            step = _choose_batch_rows(groups.row_group(group), roots, request.block_bytes)
            batches = parquet.iter_batches(
                step, row_groups=[group], columns=columns or None, use_threads=False
            )
            for batch in batches:
                yield batch_to_block(batch, request, row, before)
                row += batch.num_rows


def count_rows_before(file: InputFile, part: Range) -> int:
    """How many rows stand before a range of row groups or record batches."""
    with _open(file) as source:
        if part.kind == "groups":
            groups = _open_parquet(source).metadata
            return sum(groups.row_group(at).num_rows for at in range(part.start))
        reader, _ = _open_arrow(source)
        return sum(reader.get_batch(at).num_rows for at in range(part.start))


def _choose_batch_rows(group: Any, roots: list[str], block_bytes: int) -> int:
    """As many rows as fill a block, by the group's own average."""
    columns = (group.column(at) for at in range(group.num_columns))
    wanted = [
        column.total_uncompressed_size for column in columns if column.path_in_schema.split(".")[0] in roots
    ]
    average = max(sum(wanted) // max(group.num_rows, 1), 1)
    return int(min(max(block_bytes // average, 1), _MAX_BATCH_ROWS))


def _open_arrow(source: Any) -> tuple[Any, bool]:
    """A reader and whether it can be entered at any batch (the file format, not the stream)."""
    magic = source.read(6)
    source.seek(0)
    return (pa.ipc.open_file(source), True) if magic == b"ARROW1" else (pa.ipc.open_stream(source), False)


def list_arrow_fields(file: InputFile, _config: SourceConfig) -> tuple[list[str], list[str]]:
    """Columns of strings, and all columns, of an Arrow file or stream."""
    with _open(file) as source:
        return _list_fields(_open_arrow(source)[0].schema)


def cut_batches(file: InputFile, unit_bytes: int) -> list[Range] | None:
    """Ranges of record batches of an Arrow file; None for a stream, which has no directory of them."""
    with _open(file) as source:
        reader, seekable = _open_arrow(source)
        count = int(reader.num_record_batches) if seekable else 0
    return _cut_by_size("batches", [file.size // max(count, 1)] * count, unit_bytes) if seekable else None


def read_arrow(request: Request) -> Iterator[Block]:
    """Blocks of the record batches of the range."""
    file, part = request.file, request.part
    with _open(file) as source:
        reader, seekable = _open_arrow(source)
        batches = reader
        if seekable:
            stop = part.stop if part.kind == "batches" else reader.num_record_batches
            batches = (reader.get_batch(at) for at in range(part.start, stop))

        def before() -> int:
            return sum(reader.get_batch(at).num_rows for at in range(part.start)) if part.start else 0

        row = 0
        for batch in batches:
            for piece in cut_batch(batch, request.block_bytes):
                yield batch_to_block(piece, request, row, before)
                row += piece.num_rows


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type of characters, also in a dictionary: `large_string`, `dictionary<string>`."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


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
    if not columns:
        return texts, rows, {}
    from tokenmill.sources.where import ArrowColumn  # here, since most jobs have no columns

    return texts, rows, {name: ArrowColumn(column) for name, column in columns.items()}


def _find_texts(batch: pa.RecordBatch, fields: Fields, where: str) -> pa.LargeStringArray:
    if fields.whole:
        names = [name for name in batch.schema.names if name in fields.roots]
        return rows_to_json(batch.select(names).to_pylist()).to_arrow()
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
