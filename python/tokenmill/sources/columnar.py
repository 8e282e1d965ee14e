"""Read Parquet and Arrow files: ranges of row groups or record batches, a bounded batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError, TokenmillError
from tokenmill.sources.fields import Fields, Request
from tokenmill.sources.model import Block, FileFaultError, InputFile, Range, Reject
from tokenmill.sources.raw import RawFile
from tokenmill.sources.records import describe, rows_to_json

_MAX_BATCH_ROWS = 65536
_READ_BYTES = 1 << 20
_MAX_LISTED = 100


class _Parquet:
    """A Parquet file as a sequence of row groups."""

    kind: Literal["groups", "batches"] = "groups"

    def __init__(self, source: Any) -> None:
        import pyarrow.parquet as pq  # here, since other formats do not need it

        # Pages are read through a small buffer, not a whole column of a row group at once.
        self._file = pq.ParquetFile(source, pre_buffer=False, buffer_size=_READ_BYTES)
        self._groups = [self._file.metadata.row_group(at) for at in range(self._file.num_row_groups)]
        self.schema = self._file.schema_arrow
        self.sizes: list[int] | None = [group.total_byte_size for group in self._groups]

    def count_rows(self, stop: int | None) -> int:
        """Return the number of rows of the groups before `stop`."""
        return sum(group.num_rows for group in self._groups[:stop])

    def read(self, start: int, stop: int | None, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield batches of about a block each, with the requested columns only."""
        columns = [name for name in request.fields.roots if name in self.schema.names]
        for at, group in list(enumerate(self._groups))[start:stop]:
            parts = [group.column(place) for place in range(group.num_columns)]
            sizes = [x.total_uncompressed_size for x in parts if x.path_in_schema.split(".")[0] in columns]
            rows = min(max(request.block_bytes * group.num_rows // max(sum(sizes), 1), 1), _MAX_BATCH_ROWS)
            yield from self._file.iter_batches(rows, [at], columns or None, use_threads=False)


class _Arrow:
    """An Arrow file as a sequence of record batches; an Arrow stream can only be read from its start."""

    kind: Literal["groups", "batches"] = "batches"

    def __init__(self, source: Any, size: int) -> None:
        magic = source.read(6)
        source.seek(0)
        self._reader: Any = pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)
        self.schema = self._reader.schema
        count = getattr(self._reader, "num_record_batches", None)
        self.sizes = None if count is None else [size // max(count, 1)] * count

    def count_rows(self, stop: int | None) -> int:
        """Return the number of rows of the batches before `stop`."""
        return sum(self._reader.get_batch(at).num_rows for at in range(len(self.sizes or ()))[:stop])

    def read(self, start: int, stop: int | None, _request: Request) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they are stored."""
        if self.sizes is None:
            yield from self._reader
        else:
            yield from map(self._reader.get_batch, range(len(self.sizes))[start:stop])


@contextmanager
def _open(file: InputFile) -> Iterator[_Parquet | _Arrow]:
    """Open a file; raise `FileFaultError` with its name and position for an error of Arrow."""
    with closing(RawFile(file)) as raw:
        try:
            source = pa.PythonFile(raw, mode="r")
            yield _Parquet(source) if file.format == "parquet" else _Arrow(source, file.size)
        except TokenmillError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise FileFaultError(
                "damaged", f"{file.url}:{raw.tell()}", f"{error} (read as {file.format})"
            ) from error


def list_fields(file: InputFile) -> tuple[list[str], list[str]]:
    """Return the columns of strings, and all columns."""
    with _open(file) as table:
        return [field.name for field in table.schema if is_text(field.type)], table.schema.names


def cut(file: InputFile, unit_bytes: int) -> list[Range] | None:
    """Cut between row groups or batches: sizes 6, 6, 6 in units of 10 -> [0, 2), [2, 3)."""
    with _open(file) as table:
        if table.sizes is None:
            return None
    found: list[Range] = []
    start = total = 0
    for at, size in enumerate(table.sizes, 1):
        total += size
        if total >= unit_bytes or at == len(table.sizes):
            found.append(Range(table.kind, start, at, total))
            start, total = at, 0
    return found


def count_rows(file: InputFile, stop: int | None = None) -> int:
    """Return the number of rows before row group or record batch `stop`."""
    with _open(file) as table:
        return table.count_rows(stop)


def read(request: Request) -> Iterator[Block]:
    """Yield the blocks of a range."""
    part = request.part
    with _open(request.file) as table:
        stop = part.stop if part.kind == table.kind else None
        yield from read_batches(table.read(part.start, stop, request), request)


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type of characters, also in a dictionary: `large_string`, `dictionary<string>`."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def read_batches(batches: Iterable[pa.RecordBatch], request: Request) -> Iterator[Block]:
    """Yield the batches of a range in blocks of about `block_bytes` each."""
    row = 0
    for batch in batches:
        step = -(-batch.num_rows // max(batch.nbytes // request.block_bytes, 1)) or 1
        for at in range(0, batch.num_rows, step):
            yield _batch_to_block(batch.slice(at, step), request, row + at)
        row += batch.num_rows


def _batch_to_block(batch: pa.RecordBatch, request: Request, first_row: int) -> Block:
    """Return one batch as a block; `first_row` is the number of its first record within the range."""
    fields, config, where, count = request.fields, request.config, request.file.url, batch.num_rows
    texts = _find_texts(batch, fields, where)
    size = int(texts.nbytes)
    flat, replaced = Texts.from_arrow(texts), {}
    invalid = _core.invalid_rows(flat.data, np.asarray(flat.offsets))
    if invalid and config.on_error == "replace":
        texts, replaced["invalid_utf8"] = _repair(texts)
        flat, invalid = Texts.from_arrow(texts), []
    faults = _find_faults(texts, flat, invalid, config.max_record_bytes)
    rejects = []
    for row, at, reason in faults[:_MAX_LISTED]:
        sample = (
            flat.data[flat.offsets[row] : flat.offsets[row + 1]][:60].tobytes().decode("utf-8", "replace")
        )
        rejects.append(Reject(reason, describe(request.file, request.part, first_row + row, at), sample))
    rows = np.arange(first_row, first_row + count, dtype=np.int64)
    if faults:
        keep = np.ones(count, bool)
        keep[[row for row, _, _ in faults]] = False
        texts, rows, batch = texts.filter(pa.array(keep)), rows[keep], batch.filter(pa.array(keep))
    ids, columns = None, {}
    if fields.paths:
        # Here, since most jobs have no columns.
        from tokenmill.sources.where import make_arrow_column, make_arrow_labels

        found = [follow_path(batch, path, where) for path in fields.paths]
        ids = make_arrow_labels(found.pop(0)) if fields.id else None
        columns = dict(zip(fields.columns, map(make_arrow_column, found), strict=True))
    return Block(
        texts=Texts.from_arrow(texts),
        rows=rows,
        ids=ids,
        columns=columns,
        bytes_read=size,
        rows_read=count,
        rejects=tuple(rejects),
        refused=dict(Counter(reason for _, _, reason in faults)),
        replaced=replaced,
    )


def _find_texts(batch: pa.RecordBatch, fields: Fields, where: str) -> pa.LargeStringArray:
    if fields.whole:
        names = [name for name in batch.schema.names if name in fields.roots]
        return rows_to_json(batch.select(names).to_pylist()).to_arrow()
    parts = [
        pa.scalar(part, pa.large_string())
        if isinstance(part, str)
        else _to_text(follow_path(batch, part, where), ".".join(part), where)
        for part in fields.text
    ]
    if len(parts) == 1:
        return parts[0]
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()), null_handling="emit_null")


def _to_text(column: pa.Array, name: str, where: str) -> pa.LargeStringArray:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        # Bytes of unknown encoding, which are checked like all texts.
        wide = column.cast(pa.large_binary())
        validity, ends, data = wide.buffers()
        return pa.LargeStringArray.from_buffers(len(wide), ends, data, validity, -1, wide.offset)
    if not is_text(kind) and not pa.types.is_null(kind):
        raise InputError(
            f"{where}: column {name!r} is {kind}, but the text must be a string; name another text_field"
        )
    return column.cast(pa.large_string())


def follow_path(batch: pa.RecordBatch, path: tuple[str, ...], where: str) -> pa.Array:
    """Return the column at a path through structs: `("meta", "lang")`."""
    try:
        column = batch.column(path[0])
        for name in path[1:]:
            import pyarrow.compute as pc

            column = pc.struct_field(column, name)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        known = ", ".join(batch.schema.names)
        raise InputError(f"{where}: no column {'.'.join(path)!r}; it has {known}") from error
    return column


def _find_faults(
    texts: pa.LargeStringArray, flat: Texts, invalid: list[tuple[int, int]], limit: int
) -> list[tuple[int, int, str]]:
    """Return `(row, byte, reason)` of each invalid text, each row once, in order."""
    longer = np.flatnonzero(np.diff(np.asarray(flat.offsets)) > limit).tolist()
    faults = {row: (at, "invalid_utf8") for row, at in invalid} | dict.fromkeys(longer, (0, "over_long"))
    if texts.null_count:  # to_numpy imports pandas, which takes 0.3 s
        missing = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
        faults |= dict.fromkeys(missing.tolist(), (0, "missing_field"))
    return [(row, *fault) for row, fault in sorted(faults.items())]


def _repair(texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, int]:
    """Return the texts with U+FFFD where they are not UTF-8, and the number of replacements."""
    raw = texts.cast(pa.large_binary()).to_pylist()
    repaired = [None if data is None else data.decode("utf-8", "replace") for data in raw]
    before = sum(data.count("\ufffd".encode()) for data in raw if data)
    after = sum(text.count("\ufffd") for text in repaired if text)
    return pa.array(repaired, pa.large_string()), after - before
