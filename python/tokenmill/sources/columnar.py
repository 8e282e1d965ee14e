"""Parquet and Arrow files: ranges of row groups or record batches, read a bounded batch at a time."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from tokenmill.errors import TokenmillError
from tokenmill.sources.columns import is_text
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.model import Range
from tokenmill.sources.raw import RawFile
from tokenmill.sources.tables import batch_to_block, cut_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block, InputFile

_MAX_BATCH_ROWS = 65536
_READ_BYTES = 1 << 20


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
