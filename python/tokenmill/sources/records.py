"""JSON Lines and plain text: windows of bytes through the core to blocks of documents."""

from __future__ import annotations

import json
from array import array
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.sources.compression import open_stream
from tokenmill.sources.model import Block, Reject
from tokenmill.sources.raw import RawFile
from tokenmill.sources.windows import BOM, Buffer, Cut, Window, find_first_byte, read_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import InputFile, Range
    from tokenmill.sources.where import TextColumn

# A line number is found by counting from the file's start; beyond this it would cost more than it tells.
_COUNTABLE_BYTES = 1 << 30
_COUNT_STEP = 8 << 20


class Reader(Protocol):
    """Whole records in, flat buffers out."""

    def read(self, block: memoryview, /) -> _core.Records:
        """Read every record of `block`."""


@dataclass(frozen=True, slots=True)
class TextReader:
    """Documents between separators; an empty separator makes one document of everything."""

    separator: bytes
    limit: int
    replace: bool

    def read(self, block: memoryview, /) -> _core.Records:
        """Split `block`."""
        return _core.split_text(
            block, self.separator, strip_cr=self.separator == b"\n", limit=self.limit, replace=self.replace
        )


def read_jsonl(request: Request) -> Iterator[Block]:
    """Blocks of the JSON Lines that start in the range."""
    yield from _read_range(request, make_json_reader(request), b"\n")


def make_json_reader(request: Request) -> _core.JsonlReader:
    """The core's reader for the fields that are asked for."""
    return _core.JsonlReader(
        [part if isinstance(part, str) else list(part) for part in request.fields.text],
        [list(path) for path in request.fields.paths],
        limit=request.config.max_record_bytes,
        replace=request.config.on_error == "replace",
    )


def read_txt(request: Request) -> Iterator[Block]:
    """Blocks of the documents of a plain text file."""
    file, paths = request.file, request.fields.paths
    if paths:
        raise InputError(
            f"{file.url}: a text file has no fields, but id_field or a predicate asks for "
            f"{', '.join('.'.join(path) for path in paths)}; leave it out for this input"
        )
    separators = {"file": b"", "line": b"\n", "separator": (file.separator or "").encode()}
    separator = separators[file.txt_mode or "file"]
    config = request.config
    reader = TextReader(separator, config.max_record_bytes, config.on_error == "replace")
    if not separator and _can_go_on(request):
        yield from _read_parts(request, reader)
    else:
        yield from _read_range(request, reader, separator)


def _can_go_on(request: Request) -> bool:
    """Return True if one document may come in parts; under `skip` all of it must be good first."""
    file, config = request.file, request.config
    large = 4 * request.block_bytes < file.size
    return request.parts and large and file.compression is None and config.on_error != "skip"


def _read_parts(request: Request, reader: Reader) -> Iterator[Block]:
    """One document in parts that end between two characters; all but the last say that it goes on."""
    places = RecordPlaces(request.file)
    with closing(open_stream(request.file, 0, request.config.max_expansion)) as stream:
        buffer = Buffer(stream, 0, request.block_bytes)
        buffer.read(len(BOM))
        buffer.drop(len(BOM) if buffer.data[: len(BOM)] == BOM else 0)
        while not buffer.ended:
            buffer.read(request.block_bytes)
            if buffer.fault is not None:
                raise buffer.fault
            end = buffer.fill if buffer.ended else _find_last_character(buffer)
            records = reader.read(memoryview(buffer.data)[:end])
            block = records_to_block(request, records, RecordOrigin(places, 0, buffer.offset, end), "json")
            yield replace(block, goes_on=not buffer.ended, rows_read=int(buffer.ended))
            buffer.drop(end)


def _find_last_character(buffer: Buffer) -> int:
    """Where the last character that may be cut off begins."""
    for at in range(buffer.fill - 1, buffer.fill - 4, -1):
        if buffer.data[at] >= 0xC0:
            return at
    return buffer.fill


def _read_range(request: Request, reader: Reader, delimiter: bytes) -> Iterator[Block]:
    file, part, config = request.file, request.part, request.config
    stop = part.stop if part.kind == "bytes" else None
    cut = Cut(part.start, stop, delimiter, request.block_bytes, config.max_record_bytes)
    places = RecordPlaces(file, part.start, lines=delimiter == b"\n")
    start, rows = find_first_byte(part.start, delimiter), 0
    with closing(open_stream(file, start, config.max_expansion)) as stream:
        for window in read_windows(stream, cut):
            if window.over_long:
                block = _refuse_over_long(window, rows, places)
            else:
                origin = RecordOrigin(places, rows, window.offset, len(window.data))
                block = records_to_block(request, reader.read(window.data), origin, "json")
            rows += block.rows_read
            yield block
            del block  # before the next one is read: it may be large


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """Where bytes came from: `size` of them at `offset`, `rows` records into the range."""

    places: RecordPlaces
    rows: int
    offset: int
    size: int


def records_to_block(
    request: Request,
    records: _core.Records,
    origin: RecordOrigin,
    kind: Literal["json", "csv"],
    names: tuple[str, ...] = (),
) -> Block:
    """What the core read, as a block; `names` are the columns behind the others that a record is made of."""
    rejects = tuple(
        Reject(
            reason,
            origin.places.describe(origin.rows + row, origin.offset + byte),
            sample.decode("utf-8", "replace"),
        )
        for reason, row, byte, sample in records.rejects
    )
    fields = request.fields
    columns = _make_columns(records, kind) if fields.paths or names else []
    texts = Texts(*records.texts)
    if names:
        split = len(columns) - len(names)
        values = [column.strings().to_pylist() for column in columns[split:]]
        texts = rows_to_json(dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
        columns = columns[:split]
    ids = columns.pop(0).labels() if fields.id else None
    return Block(
        texts=texts,
        rows=records.rows(origin.rows),
        ids=ids,
        columns=dict(zip(fields.columns, columns, strict=True)),
        bytes_read=origin.size,
        rows_read=records.rows_read,
        rejects=rejects,
        refused=dict(records.refused),
        replaced=dict(records.replaced),
    )


def _make_columns(records: _core.Records, kind: Literal["json", "csv"]) -> list[TextColumn]:
    from tokenmill.sources.where import TextColumn  # here, since it imports Arrow

    return [
        TextColumn(kinds, Texts(data, ends).to_arrow(), typed=kind == "json")
        for kinds, data, ends in records.columns
    ]


def row_to_json(row: Any) -> bytes:
    """Return a record as one JSON value without its null fields."""
    if isinstance(row, dict):
        row = {name: value for name, value in row.items() if value is not None}
    return json.dumps(row, default=str).encode()


def rows_to_json(rows: Iterable[Any]) -> Texts:
    """Return each record as one JSON value."""
    lines = [row_to_json(row) for row in rows]
    return Texts(b"".join(lines), array("q", accumulate(map(len, lines), initial=0)))


def _refuse_over_long(window: Window, rows: int, places: RecordPlaces) -> Block:
    sample = bytes(window.data[:60]).decode("utf-8", "replace")
    reject = Reject("over_long", places.describe(rows, window.offset), sample)
    return Block(rows_read=1, rejects=(reject,), refused={"over_long": 1})


def name_record(file: InputFile, part: Range, row: int) -> str:
    """`"corpus.jsonl:12"`: where a record of a range stands, looked up only when it must be named."""
    if part.kind == "bytes" and part.start:
        return RecordPlaces(file, part.start, lines=True).describe(row, 0).rpartition(":")[0]
    before = part.start if part.kind == "rows" else 0
    if part.kind in {"groups", "batches"} and part.start:
        from tokenmill.sources.columnar import count_rows_before

        before = count_rows_before(file, part)
    return f"{file.url}:{before + row + 1}"


class RecordPlaces:
    """`file:line:byte` of a record; for a range inside a file the lines before it are counted once.

    In a file that is not of lines, the number is that of the record.
    """

    def __init__(self, file: InputFile, start: int = 0, *, lines: bool = False) -> None:
        self._file = file
        self._start = start
        self._lines = lines
        self._before: int | None = 0 if start == 0 else None

    def describe(self, row: int, byte: int) -> str:
        """`"corpus.jsonl:12:3456"`; the line is left out where counting it would read too much."""
        if self._before is None and self._lines and self._file.local and self._start <= _COUNTABLE_BYTES:
            self._before = _count_lines(self._file, self._start)
        line = "" if self._before is None else str(self._before + row + 1)
        return f"{self._file.url}:{line}:{byte}"


def _count_lines(file: InputFile, start: int) -> int:
    """Newlines before the first record of a range, the one that ends at or after `start` included."""
    count, at = 0, 0
    with closing(RawFile(file)) as raw:
        while at < start - 1 and (data := raw.read(min(_COUNT_STEP, start - 1 - at))):
            count += data.count(b"\n")
            at += len(data)
    return count + 1
