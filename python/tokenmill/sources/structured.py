"""JSON values and delimited rows: formats whose records only a parser can find the end of."""

from __future__ import annotations

import codecs
import csv
import io
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.errors import InputError
from tokenmill.sources.compression import open_stream, read_head
from tokenmill.sources.fields import SAMPLE_RECORDS, collect_fields
from tokenmill.sources.model import FileFaultError
from tokenmill.sources.records import (
    RecordOrigin,
    RecordPlaces,
    make_json_reader,
    mark_strings,
    records_to_block,
)
from tokenmill.sources.windows import BOM, Buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block, InputFile

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_END = 4  # the core's state behind a JSON value


def list_fields(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """Return the fields that hold strings, and all, as far as the head shows them."""
    head = read_head(file, config.max_expansion)
    if file.format == "json":
        return collect_fields(map(mark_strings, _read_members(head.removeprefix(codecs.BOM_UTF8))))
    names = _read_header(head, file)[0]
    return names, names


def cut(_file: InputFile, _unit_bytes: int) -> None:
    """Return None: these formats cannot be entered in the middle."""


def read(request: Request) -> Iterator[Block]:
    """Yield the blocks of a delimited file, or of the records in one JSON value.

    The value is an array, an object of records, or one record.
    """
    head = read_head(request.file, request.config.max_expansion)
    if request.file.format != "json":
        names, width = _read_header(head, request.file)
        if names:
            yield from _read_records(request, _Rows(request, names), skip=width)
        return
    skip = len(BOM) if head.startswith(BOM) else 0
    if _is_single_record(head[skip:], request):
        yield from _read_records(request, _OneRecord(request), skip=skip)
    elif head.strip():
        yield from _read_records(request, _Elements(request), skip=skip)


class _Elements:
    """Reads the elements of a JSON array or object.

    A parser takes bytes that start between two records, and returns the whole records and their length.
    """

    typed = True
    names: tuple[str, ...] = ()
    """The last columns, which together are the record, where the parser does not return it whole."""

    def __init__(self, request: Request) -> None:
        self._reader = make_json_reader(request)
        self._state = 0
        self._broken = self._last = False

    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        records, used, self._state, self._broken = self._reader.read_elements(data, self._state, last=last)
        self._last = last
        return records, used

    def find_fault(self) -> str | None:
        """Return what is wrong with the rest of the file after the last call, or None."""
        if self._broken:
            return "the JSON value is broken here, and nothing after it can be read"
        return "the JSON value does not end" if self._last and self._state != _END else None


class _OneRecord(_Elements):
    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        whole = b"[" + bytes(data) + b"]" if last else b""
        return self._reader.read_elements(whole, 0, last=False)[0], len(data) if last else 0


class _Rows:
    """Reads the rows of a delimited file."""

    typed = False

    def __init__(self, request: Request, names: list[str]) -> None:
        def find_column(path: tuple[str, ...]) -> int:
            name = ".".join(path)
            if names.count(name) != 1:
                problem = "has no field" if name not in names else "has more than one field"
                raise InputError(
                    f"{request.file.url}: the first row {problem} {name!r}; it has {', '.join(names)}"
                )
            return names.index(name)

        fields = request.fields
        self.names = tuple(names) if fields.whole else ()
        self._reader = _core.CsvReader(
            [
                part if isinstance(part, str) else find_column(part)
                for part in (() if fields.whole else fields.text)
            ],
            [*map(find_column, fields.paths), *(find_column((name,)) for name in self.names)],
            delimiter=ord(_DELIMITERS[request.file.format]),
            width=len(names),
            limit=request.config.max_record_bytes,
            replace=request.config.on_error == "replace",
        )

    def __call__(self, data: memoryview, *, last: bool) -> tuple[_core.Records, int]:
        return self._reader.read(data, last=last)

    def find_fault(self) -> str | None:
        """Return None: a bad row does not spoil the next."""
        return None


def _read_records(request: Request, parser: _Elements | _Rows, *, skip: int) -> Iterator[Block]:
    """Feed the parser windows that hold at least one whole record each."""
    file, limit, rows = request.file, request.config.max_record_bytes, 0
    places = RecordPlaces(file)
    with closing(open_stream(file, 0, request.config.max_expansion)) as stream:
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
                if buffer.fill > limit:
                    place = f"{file.url}::{buffer.offset}"
                    raise FileFaultError("over_long", place, f"no record ends within {limit} bytes")
                target = min(2 * buffer.fill, limit + 1)
                continue
            origin = RecordOrigin(places, rows, buffer.offset, used)
            block = records_to_block(request, records, origin, typed=parser.typed, names=parser.names)
            rows += block.rows_read
            yield block
            if fault := parser.find_fault():
                reason = "truncated" if buffer.ended and used == buffer.fill else "damaged"
                raise FileFaultError(reason, places.describe(rows, buffer.offset + used), fault)
            buffer.drop(used)
            target = max(request.block_bytes, buffer.fill + 1)
        if buffer.fault:
            raise buffer.fault


def _read_header(head: bytes, file: InputFile) -> tuple[list[str], int]:
    r"""Return the names of the fields and the length of their row: `b"a,b\n1,2"` -> `(["a", "b"], 4)`."""
    end = -1
    while (end := head.find(b"\n", end + 1)) >= 0 and head.count(b'"', 0, end) % 2:
        continue
    row = head if end < 0 else head[: end + 1]
    try:
        lines = io.StringIO(row.decode("utf-8-sig"), newline="")
        names = next(csv.reader(lines, delimiter=_DELIMITERS[file.format]), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{file.url}:1: the first row must name the fields, but cannot be read: {error}"
        ) from error
    return names, len(row)


def _is_single_record(head: bytes, request: Request) -> bool:
    """Return True if the value is an object with a requested field, which for a text is a string."""
    fields = request.fields
    roots = fields.record[:1] if fields.whole else fields.roots
    members, _ = _core.json_members(head)
    return any(name in roots and (fields.whole or first == '"') for name, first in members)


def _read_members(head: bytes) -> Iterator[list[tuple[str, str]]]:
    """Yield the members of each record, and of the value itself if it has a text."""
    whole = _core.JsonlReader([[]], [], limit=len(head) + 1, replace=True)
    # The comma ends a record that the head ends with.
    data, offsets = whole.read_elements(head + b",", 0, last=False)[0].texts
    for start, end in pairwise(offsets[: SAMPLE_RECORDS + 1]):
        yield _core.json_members(bytes(data[start:end]))[0]
    top = [(name, first) for name, first in _core.json_members(head)[0] if first not in "[{"]
    if any(first == '"' for _, first in top):
        yield top
