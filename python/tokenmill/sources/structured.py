"""Read JSON values and delimited rows, in which only a parser can find the end of a record."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from tokenmill import _core
from tokenmill.errors import InputError
from tokenmill.sources.fields import SAMPLE_RECORDS, Request, collect_fields
from tokenmill.sources.model import Block, InputFile
from tokenmill.sources.raw import read_head
from tokenmill.sources.records import (
    BOM,
    DELIMITERS,
    Buffer,
    Parsed,
    make_json_reader,
    mark_strings,
    read_records,
)

_END = 4  # the core's state after a JSON value


def list_fields(file: InputFile) -> tuple[list[str], list[str]]:
    """Return the string fields and all fields of the records in the first bytes of the file."""
    head = read_head(file)
    if file.format == "json":
        return collect_fields(map(mark_strings, _read_members(head.removeprefix(BOM))))
    names = _read_header(head, file)[0]
    return names, names


def cut(_file: InputFile, _unit_bytes: int) -> None:
    """Return None: these formats can only be read from the start."""


def read(request: Request) -> Iterator[Block]:
    """Yield the blocks of a delimited file, or of the records in one JSON value.

    The value is an array, an object of records, or one record.
    """
    head = read_head(request.file)
    if request.file.format != "json":
        names, width = _read_header(head, request.file)
        if names:
            yield from _read_rows(request, names, width)
    elif _is_single_record(head.removeprefix(BOM), request):
        reader = make_json_reader(request)

        def parse(buffer: Buffer, last: bool) -> Parsed:  # noqa: FBT001
            whole = b"[" + buffer.data[: buffer.fill] + b"]" if last else b""
            return reader.read_elements(whole, 0, last=False)[0], buffer.fill if last else 0, None

        yield from read_records(request, parse)
    elif head.strip():
        yield from _read_elements(request)


def _read_elements(request: Request) -> Iterator[Block]:
    """Yield the blocks of the elements of a JSON array or object."""
    reader, state = make_json_reader(request), 0

    def parse(buffer: Buffer, last: bool) -> Parsed:  # noqa: FBT001
        nonlocal state
        data = memoryview(buffer.data)[: buffer.fill]
        records, used, state, broken = reader.read_elements(data, state, last=last)
        if broken:
            return records, used, "the JSON value is broken here, and nothing after it can be read"
        return records, used, "the JSON value does not end" if last and state != _END else None

    return read_records(request, parse)


def _read_rows(request: Request, names: list[str], header_bytes: int) -> Iterator[Block]:
    """Yield the blocks of the rows of a delimited file."""

    def find_column(path: tuple[str, ...]) -> int:
        name = ".".join(path)
        if names.count(name) != 1:
            problem = "has no field" if name not in names else "has more than one field"
            raise InputError(
                f"{request.file.url}: the first row {problem} {name!r}; it has {', '.join(names)}"
            )
        return names.index(name)

    fields = request.fields
    record = tuple(names) if fields.whole else ()
    text = () if fields.whole else fields.text
    reader = _core.CsvReader(
        [part if isinstance(part, str) else find_column(part) for part in text],
        [*map(find_column, fields.paths), *(find_column((name,)) for name in record)],
        delimiter=ord(DELIMITERS[request.file.format]),
        width=len(names),
        limit=request.config.max_record_bytes,
        replace=request.config.on_error == "replace",
    )

    def parse(buffer: Buffer, last: bool) -> Parsed:  # noqa: FBT001
        return *reader.read(memoryview(buffer.data)[: buffer.fill], last=last), None

    named = replace(request, fields=replace(fields, record=record))
    return read_records(named, parse, skip=header_bytes)


def _read_header(head: bytes, file: InputFile) -> tuple[list[str], int]:
    r"""Return the names of the fields and the length of their row: `b"a,b\n1,2"` -> `(["a", "b"], 4)`."""
    lines = io.StringIO(head.decode("utf-8-sig", "replace"), newline="")
    reader = csv.reader(lines, delimiter=DELIMITERS[file.format])
    try:
        names = next(reader, [])
    except csv.Error as error:
        raise InputError(f"{file.url}:1: the first row, which names the fields: {error}") from error
    return names, len(b"".join(head.splitlines(keepends=True)[: reader.line_num]))


def _is_single_record(head: bytes, request: Request) -> bool:
    """Return True if the value is an object with a requested field, which for a text is a string."""
    fields = request.fields
    roots = fields.record[:1] if fields.whole else fields.roots
    members, _ = _core.json_members(head)
    return any(name in roots and (fields.whole or first == '"') for name, first in members)


def _read_members(head: bytes) -> Iterator[list[tuple[str, str]]]:
    """Yield the members of each record, and of the value itself if it has a string."""
    whole = _core.JsonlReader([[]], [], limit=len(head) + 1, replace=True)
    # The comma terminates a record at the end of the head.
    data, offsets = whole.read_elements(head + b",", 0, last=False)[0].texts
    for start, end in pairwise(offsets[: SAMPLE_RECORDS + 1]):
        yield _core.json_members(bytes(data[start:end]))[0]
    top = [(name, first) for name, first in _core.json_members(head)[0] if first not in "[{"]
    if any(first == '"' for _, first in top):
        yield top
