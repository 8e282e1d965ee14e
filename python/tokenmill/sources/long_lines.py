"""A JSON line that is too long to hold: seen once for its outline, then read again for its text, in parts.

Nothing of a record counts before all of it is known to be good. The first pass keeps the line without the
middle of its long strings, which tells whether it is good and where its text is; the second reads just that.
"""

from __future__ import annotations

from array import array
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.sources.compression import open_stream
from tokenmill.sources.windows import Buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block

# A larger outline is of no use: such a line is long for other reasons than its strings, and is held whole.
MOST_OUTLINE = 16 << 20


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line of `size` bytes, with its end, at `offset` of the decoded file: its record without the text.

    `parts` is what the text is made of; None if only the whole line can tell.
    """

    offset: int
    size: int
    records: _core.Records
    parts: list[bytes | tuple[int, int]] | None

    @property
    def is_bad(self) -> bool:
        """Whether it has no text: it is refused, or blank."""
        return self.parts is not None and len(self.records.texts[1]) == 1


def read_outline(reader: _core.JsonlReader, buffer: Buffer, limit: int) -> LongLine | None:
    """Read to the end of the line that begins the buffer, and drop it; None if it is over the limit."""
    start, held = buffer.offset, 0
    found = reader.outline()
    while True:
        end = buffer.find(b"\n")
        last = end >= 0 or buffer.ended
        stop = end if end >= 0 else buffer.fill
        if buffer.offset + stop - start > limit:
            return None
        if last and end < 0 and buffer.fault is not None:
            raise buffer.fault
        if held <= MOST_OUTLINE:
            with memoryview(buffer.data) as data:
                used, held = found.feed(data[:stop], last=last)
        else:
            used = stop
        buffer.drop(stop + (end >= 0) if last else used)
        if last:
            break
        buffer.read(max(buffer.capacity, 2 * buffer.fill))
    records, parts = found.finish()
    if held > MOST_OUTLINE:
        parts = None
    elif len(records.texts[1]) == 1:
        parts = []
    return LongLine(start, buffer.offset - start, records, parts)


def read_text_parts(request: Request, line: LongLine, block: Block) -> Iterator[Block]:
    """The document of a line as blocks of parts; all but the last say that it goes on."""
    texts = _read_texts(request, line)
    ahead, read = next(texts, b""), 0
    for text in texts:
        yield replace(_make_part(block, ahead), goes_on=True, bytes_read=len(ahead), rows_read=0)
        read += len(ahead)
        block = replace(block, replaced={}, refused={}, rejects=())
        ahead = text
    yield replace(_make_part(block, ahead), bytes_read=max(0, line.size - read))


def _make_part(block: Block, text: bytes | memoryview) -> Block:
    return replace(block, texts=Texts(text, array("q", [0, len(text)])))


def _read_texts(request: Request, line: LongLine) -> Iterator[bytes | memoryview]:
    for part in line.parts or ():
        if isinstance(part, bytes):
            yield part
            continue
        start, end = part
        with closing(read_again(request, line.offset + start)) as buffer:
            yield from _unescape(buffer, end - start, request)


def _unescape(buffer: Buffer, left: int, request: Request) -> Iterator[memoryview]:
    repair = request.config.on_error == "replace"
    while left:
        buffer.read(min(left, request.block_bytes))
        if buffer.fault is not None:
            raise buffer.fault
        last = buffer.fill >= left
        with memoryview(buffer.data) as data:
            text, used = _core.unescape_part(data[: min(buffer.fill, left)], replace=repair, last=last)
        buffer.drop(used)
        left -= used
        yield text


def read_again(request: Request, offset: int) -> Buffer:
    """The decoded file from a byte on; a compressed one is decoded up to there."""
    file = request.file
    plain = file.compression is None
    stream = open_stream(file, offset if plain else 0, request.config.max_expansion)
    buffer = Buffer(stream, offset if plain else 0, request.block_bytes)
    while buffer.offset < offset:
        buffer.read(min(request.block_bytes, offset - buffer.offset))
        if buffer.fault is not None:
            raise buffer.fault
        buffer.drop(buffer.fill)
    return buffer
