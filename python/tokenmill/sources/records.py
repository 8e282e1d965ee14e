"""Read JSON Lines and plain text: the core parses buffers of bytes into blocks of documents.

A record belongs to the range in which it starts, so ranges cut anywhere yield each record once. A
record starts at 0 and after every delimiter.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.sources.fields import SAMPLE_RECORDS, Request, collect_fields
from tokenmill.sources.model import Block, FileFaultError, InputFile, Range, Reject, cut_equally
from tokenmill.sources.raw import RawFile, open_stream, read_head

Reader = Callable[[memoryview], _core.Records]
# Records, the number of bytes consumed, and the fault of the rest of the file or None.
Parsed = tuple[_core.Records, int, str | None]
# Reads the whole records of a buffer that starts between two records; the bool is True at the end.
Parser = Callable[["Buffer", bool], Parsed]

# A line number is found by counting lines from the start of the file, up to this size.
_COUNTABLE_BYTES = 1 << 30
_COUNT_STEP = 8 << 20
BOM = b"\xef\xbb\xbf"
DELIMITERS = {"csv": ",", "tsv": "\t"}


def list_fields(file: InputFile) -> tuple[list[str], list[str]]:
    """Return the string fields of the first lines, and all fields; both are empty for plain text."""
    if file.format == "txt":
        return [], []
    lines = read_head(file).removeprefix(BOM).split(b"\n", SAMPLE_RECORDS)
    found = [_core.json_members(line) for line in lines[:SAMPLE_RECORDS]]
    # A single line that is longer than the head has the fields that the head shows.
    return collect_fields(mark_strings(members) for members, whole in found if whole or len(lines) == 1)


def mark_strings(members: Iterable[tuple[str, str]]) -> dict[str, bool]:
    """Map the name of each member to True if its first character is that of a string or null."""
    return {name: first in {'"', "n"} for name, first in members}


def cut(file: InputFile, unit_bytes: int) -> list[Range] | None:
    """Cut a plain file at any byte: a record belongs to the range it starts in."""
    whole = file.compression is not None or file.txt_mode == "file" or file.size <= unit_bytes
    if whole or overlaps_itself((file.separator or "").encode()):
        return None
    return cut_equally("bytes", file.size, file.size, unit_bytes)


def read(request: Request) -> Iterator[Block]:
    """Yield the blocks of the documents that start in the range."""
    file, config, paths = request.file, request.config, request.fields.paths
    if file.format == "jsonl":
        return _read_lines(request, make_json_reader(request).read, b"\n")
    if paths:
        raise InputError(
            f"{file.url}: a text file has no fields, but `id_field` or a predicate needs "
            f"{', '.join('.'.join(path) for path in paths)}; omit it for this input"
        )
    separator = {"line": "\n", "separator": file.separator or ""}.get(file.txt_mode or "", "").encode()
    # Under `skip`, a whole document must be valid before any of it is used.
    most = min(4 * request.block_bytes, config.max_record_bytes)
    large = file.size > most or file.compression is not None
    parts = request.parts and not separator and large and config.on_error != "skip"

    def split(block: memoryview) -> _core.Records:
        return _core.split_text(
            block,
            separator,
            strip_cr=separator == b"\n",
            limit=len(block) if parts else config.max_record_bytes,
            replace=config.on_error == "replace",
        )

    if parts:
        return read_records(request, partial(_parse_part, split), parts=True)
    return _read_lines(request, split, separator)


def make_json_reader(request: Request) -> _core.JsonlReader:
    """Return the core's reader for the requested fields."""
    return _core.JsonlReader(
        [part if isinstance(part, str) else list(part) for part in request.fields.text],
        [list(path) for path in request.fields.paths],
        limit=request.config.max_record_bytes,
        replace=request.config.on_error == "replace",
    )


def _read_lines(request: Request, read: Reader, delimiter: bytes) -> Iterator[Block]:
    """Yield the blocks of records that end with a delimiter; without one, the file is a record."""
    stop = request.part.stop if request.part.kind == "bytes" else None

    def parse(buffer: Buffer, last: bool) -> Parsed:  # noqa: FBT001
        end = buffer.find_end(delimiter, stop) or (buffer.fill if last else 0)
        return read(memoryview(buffer.data)[:end]), end, None

    return read_records(request, parse, delimiter=delimiter)


def _parse_part(read: Reader, buffer: Buffer, last: bool) -> Parsed:  # noqa: FBT001
    """Read the part of a document in the buffer, without a last character that may be incomplete."""
    end = buffer.fill
    if not last:
        end = next((at for at in range(end - 1, max(end - 4, 0), -1) if buffer.data[at] >= 0xC0), end)
    return read(memoryview(buffer.data)[:end]), end, None


class Buffer:
    """Bytes `[offset, offset + fill)` of the file; larger than a block for a long record only."""

    def __init__(self, stream: Any, offset: int, capacity: int) -> None:
        self.stream = stream
        self.offset = offset
        self.capacity = capacity
        self.data = bytearray(capacity)
        self.fill = 0
        self.ended = False
        self.fault: FileFaultError | None = None

    def read(self, upto: int) -> None:
        """Read until the buffer holds `upto` bytes or the stream ends.

        A fault is stored in `fault`, because the complete records before it are valid.
        """
        if upto > len(self.data):
            self._move(0, upto)
        try:
            with memoryview(self.data) as view:
                while self.fill < upto and not self.ended:
                    count = self.stream.readinto(view[self.fill : upto])
                    self.fill += count
                    self.ended = count == 0
        except FileFaultError as fault:
            self.fault = fault
            self.ended = True

    def drop(self, count: int) -> None:
        """Remove the first `count` bytes, and free the room of a long record."""
        kept = self.fill - count
        if len(self.data) > self.capacity >= kept:
            self._move(count, self.capacity)
        elif count:
            self.data[:kept] = self.data[count : self.fill]
        self.fill = kept
        self.offset += count

    def skip_start(self, count: int = 0) -> None:
        """Drop the first `count` bytes, or a byte order mark."""
        self.read(count or len(BOM))
        self.drop(count or (len(BOM) if self.data[: len(BOM)] == BOM else 0))

    def _move(self, start: int, capacity: int) -> None:
        # A new array: the consumer may still hold a view of the old one, which forbids resizing it.
        data = bytearray(capacity)
        data[: self.fill - start] = memoryview(self.data)[start : self.fill]
        self.data = data

    def skip_record(self, delimiter: bytes) -> None:
        """Drop everything up to and including the next delimiter, keeping at most a block in memory."""
        while (at := self.data.find(delimiter, 0, self.fill)) < 0:
            if self.ended:
                self.drop(self.fill)
                return
            self.drop(max(self.fill - len(delimiter) + 1, 0))
            self.read(self.capacity)
        self.drop(at + len(delimiter))

    def find_end(self, delimiter: bytes, stop: int | None) -> int:
        """Return where the last whole record that starts before `stop` ends; 0 if it is not in the buffer."""
        width = len(delimiter)
        if not width:
            return 0
        if stop is not None:
            # The delimiter that ends at or after `stop` ends the range's last record.
            at = self.data.find(delimiter, max(stop - self.offset - width, 0), self.fill)
            if at >= 0:
                return at + width
        if not overlaps_itself(delimiter):
            at = self.data.rfind(delimiter, 0, self.fill)
            return at + width if at >= 0 else 0
        end = 0
        while (at := self.data.find(delimiter, end, self.fill)) >= 0:
            end = at + width
        return end


def overlaps_itself(delimiter: bytes) -> bool:
    r"""Return True if two occurrences can share bytes, as in `"\n\n"`; such a file is read from its start."""
    return any(delimiter.startswith(delimiter[at:]) for at in range(1, len(delimiter)))


def read_records(
    request: Request, parse: Parser, *, delimiter: bytes = b"", skip: int = 0, parts: bool = False
) -> Iterator[Block]:
    """Yield the blocks of the records that start in the range; the first `skip` bytes are a header.

    `delimiter` is empty if only `parse` finds ends. With `parts`, each block is a part of one document.
    """
    file, part, limit = request.file, request.part, request.config.max_record_bytes
    start, stop = (part.start, part.stop) if part.kind == "bytes" else (0, None)
    rows, width = 0, len(delimiter)
    first = max(start - width, 0)  # include the delimiter before the range
    whole = file.size + 1 if file.size and not file.compression else request.block_bytes
    target = block_bytes = max(min(request.block_bytes, whole), 2 * width, len(BOM))
    with closing(open_stream(file, first)) as stream:
        buffer = Buffer(stream, first, block_bytes)
        if start:
            buffer.skip_record(delimiter)
        else:
            buffer.skip_start(skip)
        while stop is None or buffer.offset < stop:
            buffer.read(target)
            records, used, fault = parse(buffer, buffer.ended and not buffer.fault)
            if buffer.fault and not used:
                raise buffer.fault
            if not buffer.fill and not (parts and buffer.offset and not rows):
                return
            if used or buffer.ended or fault:
                block = records_to_block(request, records, rows, (buffer.offset, used))
                if parts:
                    block = replace(block, goes_on=not buffer.ended, rows_read=int(buffer.ended))
                rows += block.rows_read
                yield block
                del block  # before the next one is read: it may be large
                if fault:
                    reason = "truncated" if buffer.ended and used == buffer.fill else "damaged"
                    raise FileFaultError(reason, describe(file, part, rows, buffer.offset + used), fault)
                buffer.drop(used)
            elif buffer.fill <= limit:
                target = min(2 * buffer.fill, limit + width + 1)
                continue
            elif not width:
                words = f"no document ends within {limit} bytes; split a text file with `txt_mode='line'` or "
                words += "`document_separator`, or raise `max_record_bytes`"
                raise FileFaultError("over_long", describe(file, part, rows, buffer.offset), words)
            else:
                sample = bytes(buffer.data[:60]).decode("utf-8", "replace")
                reject = Reject("over_long", describe(file, part, rows, buffer.offset), sample)
                yield Block(rows_read=1, rejects=(reject,), refused={"over_long": 1})
                rows += 1
                buffer.skip_record(delimiter)
            target = max(block_bytes, buffer.fill + 1)


def records_to_block(request: Request, records: _core.Records, rows: int, span: tuple[int, int]) -> Block:
    """Return the core's records as a block; `span` is their offset and size, `rows` the records before them.

    Columns of delimited files have no types, and the last of them form the record if that is the text.
    """
    rejects = []
    for reason, row, byte, sample in records.rejects:
        place = describe(request.file, request.part, rows + row, span[0] + byte)
        rejects.append(Reject(reason, place, sample.decode("utf-8", "replace")))
    fields, delimited = request.fields, request.file.format in DELIMITERS
    names = fields.record if delimited and fields.whole else ()
    texts, ids, columns = Texts(*records.texts), None, {}
    if fields.paths or names:
        from tokenmill.sources import where  # here, since it imports Arrow

        found = [(kinds, Texts(data, ends).to_arrow()) for kinds, data, ends in records.columns]
        if names:
            values = [where.make_text_labels(*column).to_pylist() for column in found[-len(names) :]]
            texts = rows_to_json(dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))
        if fields.id:
            ids = where.make_text_labels(*found.pop(0))
        columns = {
            name: where.make_text_column(*column, typed=not delimited)
            for name, column in zip(fields.columns, found, strict=False)
        }
    return Block(
        texts=texts,
        rows=records.rows(rows),
        ids=ids,
        columns=columns,
        bytes_read=span[1],
        rows_read=records.rows_read,
        rejects=tuple(rejects),
        refused=dict(records.refused),
        replaced=dict(records.replaced),
    )


def row_to_json(row: Any) -> bytes:
    """Return a record as one JSON value without its null fields."""
    if isinstance(row, dict):
        row = {name: value for name, value in row.items() if value is not None}
    # An array as a list, and any other object as text.
    return json.dumps(row, default=lambda value: getattr(value, "tolist", value.__str__)()).encode()


def rows_to_json(rows: Iterable[Any]) -> Texts:
    """Return each record as one JSON value."""
    lines = [row_to_json(row) for row in rows]
    return Texts(b"".join(lines), array("q", accumulate(map(len, lines), initial=0)))


def describe(file: InputFile, part: Range, row: int, byte: int | None = None) -> str:
    """Return `"corpus.jsonl:12"`, the place of a record of a range, or `"corpus.jsonl:12:3456"`.

    The number is left out if counting the records before the range would read too much.
    """
    before = _count_before(file, part)
    place = f"{file.url}:{'' if before is None else before + row + 1}"
    return place if byte is None else f"{place}:{byte}"


@lru_cache(8)
def _count_before(file: InputFile, part: Range) -> int | None:
    """Return the number of records before a range, or None if it is unknown."""
    if part.start and part.kind in {"groups", "batches"}:
        from tokenmill.sources.columnar import count_rows

        return count_rows(file, part.start)
    if not part.start or part.kind == "rows":
        return part.start
    lines = file.format == "jsonl" or file.txt_mode == "line" or file.separator == "\n"
    if not (lines and file.local and part.start <= _COUNTABLE_BYTES):
        return None
    count, left = 1, part.start - 1
    with RawFile(file) as raw:
        while left > 0 and (data := raw.read(min(_COUNT_STEP, left))):
            count += data.count(b"\n")
            left -= len(data)
    return count
