"""Windows of whole records over a stream of bytes, in one reused buffer.

A record belongs to the range in which it starts, so ranges cut anywhere yield each record once. A
record starts at 0 and after every delimiter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tokenmill.sources.model import FileFaultError

if TYPE_CHECKING:
    from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"


class Stream(Protocol):
    """A source of bytes."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True, slots=True)
class Window:
    """Whole records at `offset` of the decoded file; valid until the next window is read.

    With `over_long`, the bytes are only the beginning of one record, which is skipped.
    """

    data: memoryview
    offset: int
    over_long: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The records that start in `[start, stop)`, to be read in windows of about `block_bytes`."""

    start: int
    stop: int | None
    delimiter: bytes
    block_bytes: int
    max_record: int


class Buffer:
    """Bytes `[offset, offset + fill)` of the file; larger than a block for a long record only."""

    def __init__(self, stream: Stream, offset: int, capacity: int) -> None:
        self.stream = stream
        self.offset = offset
        self.capacity = capacity
        self.data = bytearray(capacity)
        self.fill = 0
        self.ended = False
        self.fault: FileFaultError | None = None

    def read(self, upto: int) -> None:
        """Read until the buffer holds `upto` bytes or the stream ends.

        A fault is kept in `fault`, because the whole records before it are good.
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

    def find(self, delimiter: bytes, start: int = 0) -> int:
        """Return the first position of the delimiter from `start` on, or -1; an empty one has none."""
        return self.data.find(delimiter, start, self.fill) if delimiter else -1

    def _move(self, start: int, capacity: int) -> None:
        # A new array: the consumer may still hold a view of the old one, which forbids resizing it.
        data = bytearray(capacity)
        data[: self.fill - start] = memoryview(self.data)[start : self.fill]
        self.data = data


def overlaps_itself(delimiter: bytes) -> bool:
    r"""Return True if two occurrences can share bytes, as in `"\n\n"`; such a file is read from its start."""
    return any(delimiter.startswith(delimiter[at:]) for at in range(1, len(delimiter)))


def find_first_byte(start: int, delimiter: bytes) -> int:
    """Return where to begin reading so that the delimiter before `start` is seen."""
    return max(start - len(delimiter), 0)


def read_windows(stream: Stream, cut: Cut) -> Iterator[Window]:
    """Yield the records of `cut`; `stream` begins at its `find_first_byte`."""
    delimiter, stop = cut.delimiter, cut.stop
    block_bytes = max(cut.block_bytes, 2 * len(delimiter), len(BOM))
    buffer = Buffer(stream, find_first_byte(cut.start, delimiter), block_bytes)
    if not _find_start(buffer, cut):
        return
    target = block_bytes
    while stop is None or buffer.offset < stop:
        buffer.read(target)
        end = _find_end_of_records(buffer, stop, delimiter)
        if end == 0 and buffer.fault:
            raise buffer.fault
        if end == 0 and buffer.ended:
            end = buffer.fill
        if end:
            yield Window(memoryview(buffer.data)[:end], buffer.offset)
            buffer.drop(end)
        elif buffer.ended:
            return
        elif buffer.fill > cut.max_record:
            yield Window(memoryview(buffer.data)[:200], buffer.offset, over_long=True)
            _skip_record(buffer, delimiter)
        else:
            target = min(2 * buffer.fill, cut.max_record + len(delimiter) + 1)
            continue
        target = max(block_bytes, buffer.fill)


def _find_start(buffer: Buffer, cut: Cut) -> bool:
    """Drop what belongs to the range before, or the byte order mark; return False if no record is left."""
    if cut.start == 0:
        buffer.read(len(BOM))
        if buffer.data[: len(BOM)] == BOM:
            buffer.drop(len(BOM))
        return True
    _skip_record(buffer, cut.delimiter)
    if buffer.fault and not buffer.fill:
        raise buffer.fault
    return not (buffer.ended and not buffer.fill)


def _skip_record(buffer: Buffer, delimiter: bytes) -> None:
    """Drop everything up to and including the next delimiter, keeping at most a block in memory."""
    while (at := buffer.find(delimiter)) < 0:
        if buffer.ended:
            buffer.drop(buffer.fill)
            return
        buffer.drop(max(buffer.fill - max(len(delimiter) - 1, 0), 0))
        buffer.read(buffer.capacity)
    buffer.drop(at + len(delimiter))


def _find_end_of_records(buffer: Buffer, stop: int | None, delimiter: bytes) -> int:
    """Return where the last whole record that starts before `stop` ends; 0 if it is not in the buffer."""
    width = len(delimiter)
    if not width:
        return 0
    if stop is not None:
        # The delimiter that ends at or after `stop` ends the range's last record.
        at = buffer.find(delimiter, max(stop - buffer.offset - width, 0))
        if at >= 0:
            return at + width
    if not overlaps_itself(delimiter):
        at = buffer.data.rfind(delimiter, 0, buffer.fill)
        return at + width if at >= 0 else 0
    end = 0
    while (at := buffer.find(delimiter, end)) >= 0:
        end = at + width
    return end
