"""Windows of whole records over a stream of bytes, in one reused buffer.

A record belongs to the range in which it starts, so ranges cut anywhere yield each record once. A
record starts at 0 and after every delimiter.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenmill.sources.model import FileFaultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOM = b"\xef\xbb\xbf"


class Window(NamedTuple):
    """Whole records at `offset` of the decoded file; valid until the next window is read.

    With `over_long`, the bytes are only the beginning of one record, which is skipped.
    """

    data: memoryview
    offset: int
    over_long: bool = False


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

    def skip_bom(self) -> None:
        """Drop a byte order mark at the start."""
        self.read(len(BOM))
        self.drop(len(BOM) if self.data[: len(BOM)] == BOM else 0)

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


def read_windows(
    open_at: Callable[[int], Any],
    bounds: tuple[int, int | None],
    delimiter: bytes,
    block_bytes: int,
    max_record: int,
) -> Iterator[Window]:
    """Yield the records that start in `bounds`, in windows of about `block_bytes`."""
    start, stop = bounds
    first = max(start - len(delimiter), 0)  # the delimiter before the range must be seen
    target = block_bytes = max(block_bytes, 2 * len(delimiter), len(BOM))
    with closing(open_at(first)) as stream:
        buffer = Buffer(stream, first, block_bytes)
        if start:
            _skip_record(buffer, delimiter)
        else:
            buffer.skip_bom()
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
            elif buffer.fill > max_record:
                yield Window(memoryview(buffer.data)[:200], buffer.offset, over_long=True)
                _skip_record(buffer, delimiter)
            else:
                target = min(2 * buffer.fill, max_record + len(delimiter) + 1)
                continue
            target = max(block_bytes, buffer.fill)


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
