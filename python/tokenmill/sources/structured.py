"""JSON values and delimited rows: formats whose records only a parser can find the end of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Literal

from tokenmill import _core
from tokenmill.errors import InputError
from tokenmill.sources.compression import open_stream
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.heads import DELIMITERS, is_single_record, read_csv_header
from tokenmill.sources.identify import read_decoded_head
from tokenmill.sources.records import RecordOrigin, RecordPlaces, make_json_reader, records_to_block
from tokenmill.sources.windows import BOM, Buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block

_END = 4  # the core's state behind a JSON value


class _Parser(ABC):
    """Takes bytes that start between two records; gives whole records and how many bytes they took."""

    column: Literal["json", "csv"] = "json"
    """How columns of this format answer."""
    names: tuple[str, ...] = ()
    """The fields that a record is put together from, where the parser does not give it whole."""

    @abstractmethod
    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        """Read what is whole; `last` says that nothing follows."""

    def find_fault(self) -> str | None:
        """What is wrong with the rest of the file, after the last call."""
        return None


def read_csv(request: Request) -> Iterator[Block]:
    """Blocks of the rows of a delimited file; the first row names the fields."""
    head = read_decoded_head(request.file, request.config.max_expansion)
    delimiter = DELIMITERS[request.file.format]
    names, width = read_csv_header(head, delimiter, request.file.url)
    if names:
        reader = _make_csv_reader(request, names, delimiter)
        yield from _read_records(
            request, _Rows(reader, tuple(names) if request.fields.whole else ()), skip=width
        )


def _make_csv_reader(request: Request, names: list[str], delimiter: str) -> _core.CsvReader:
    def find_column(path: tuple[str, ...]) -> int:
        name = ".".join(path)
        if names.count(name) != 1:
            problem = "has no field" if name not in names else "has more than one field"
            raise InputError(
                f"{request.file.url}: the first row {problem} {name!r}; it has {', '.join(names)}"
            )
        return names.index(name)

    fields = request.fields
    # A record is put together from its fields, which stand behind the columns that are asked for.
    whole = [find_column((name,)) for name in names] if fields.whole else []
    text = [] if fields.whole else fields.text
    return _core.CsvReader(
        [part if isinstance(part, str) else find_column(part) for part in text],
        [*(find_column(path) for path in fields.paths), *whole],
        delimiter=ord(delimiter),
        width=len(names),
        limit=request.config.max_record_bytes,
        replace=request.config.on_error == "replace",
    )


class _Rows(_Parser):
    column = "csv"

    def __init__(self, reader: _core.CsvReader, names: tuple[str, ...]) -> None:
        self._reader = reader
        self.names = names

    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        return self._reader.read(data, last=last)


def read_json(request: Request) -> Iterator[Block]:
    """Blocks of the records in one JSON value: an array, an object of records, or one record."""
    head = read_decoded_head(request.file, request.config.max_expansion)
    skip = len(BOM) if head.startswith(BOM) else 0
    reader = make_json_reader(request)
    fields = request.fields
    if is_single_record(head, fields.record[:1] if fields.whole else fields.roots, text=not fields.whole):
        yield from _read_records(request, _OneRecord(reader), skip=skip)
    elif head.strip():
        yield from _read_records(request, _Elements(reader), skip=skip)


class _Elements(_Parser):
    def __init__(self, reader: _core.JsonlReader) -> None:
        self._reader = reader
        self._state = 0
        self._broken = self._last = False

    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        records, used, self._state, self._broken = self._reader.read_elements(data, self._state, last=last)
        self._last = last
        return records, used

    def find_fault(self) -> str | None:
        if self._broken:
            return "the JSON value is broken here, and nothing after it can be read"
        return "the JSON value does not end" if self._last and self._state != _END else None


class _OneRecord(_Parser):
    def __init__(self, reader: _core.JsonlReader) -> None:
        self._reader = reader

    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        whole = b"[" + bytes(data) + b"]" if last else b""
        return self._reader.read_elements(whole, 0, last=False)[0], len(data) if last else 0


def _read_records(request: Request, parser: _Parser, *, skip: int) -> Iterator[Block]:
    """Feed the parser windows that hold at least one whole record each."""
    file, config, rows = request.file, request.config, 0
    places = RecordPlaces(file)
    with closing(open_stream(file, 0, config.max_expansion)) as stream:
        buffer = Buffer(stream, 0, request.block_bytes)
        buffer.read(skip)
        buffer.drop(skip)
        target = request.block_bytes
        while not (buffer.ended and not buffer.fill):
            buffer.read(target)
            last = buffer.ended and not buffer.fault
            records, used = parser(memoryview(buffer.data)[: buffer.fill], last=last)
            if buffer.fault and not used:
                raise buffer.fault
            if not (used or buffer.ended or parser.find_fault()):
                target = _enlarge(buffer, request)
                continue
            origin = RecordOrigin(places, rows, buffer.offset, used)
            block = records_to_block(request, records, origin, parser.column, parser.names)
            rows += block.rows_read
            yield block
            if fault := parser.find_fault():
                reason = "truncated" if buffer.ended and used == buffer.fill else "damaged"
                raise FileFaultError(reason, places.describe(rows, buffer.offset + used), fault)
            buffer.drop(used)
            target = max(request.block_bytes, buffer.fill + 1)
        if buffer.fault:
            raise buffer.fault


def _enlarge(buffer: Buffer, request: Request) -> int:
    limit = request.config.max_record_bytes
    if buffer.fill > limit:
        place = f"{request.file.url}::{buffer.offset}"
        raise FileFaultError("over_long", place, f"no record ends within {limit} bytes")
    return min(2 * buffer.fill, limit + 1)
