"""Windows of whole records over a stream of bytes, in one reused buffer.

A record belongs to the range in which it starts, so ranges cut anywhere give each record once. A
record starts at 0 and after every delimiter.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from tokenmill.base.platform import map_memory
from tokenmill.sources.faults import FileFaultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = TypeVar("Item")
BOM = b"\xef\xbb\xbf"
LARGE = 64 << 20
# A record of this size or more may go to a reader that does not hold all of it.
LONG = 32 << 20


class Stream(Protocol):
    """What windows are cut from."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end."""

    def close(self) -> None:
        """Close what is behind it."""


@dataclass(frozen=True, slots=True)
class Window:
    """Whole records at `offset` of the (decoded) file; valid only while it is being read.

    With `over_long`, the bytes are only the beginning of one record that is left out. With `given`, the bytes
    are one huge record in memory of its own, which the reader may change and keep.
    """

    data: memoryview
    offset: int
    over_long: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut: the records that start in `[start, stop)`, in windows of about `block_bytes`."""

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
        self.data: bytearray | mmap.mmap = bytearray(capacity)
        self.fill = 0
        self.ended = False
        self.fault: FileFaultError | None = None

    def read(self, upto: int) -> None:
        """Read until `upto` bytes are there or the stream ends.

        A fault is kept for later: the whole records before it are good.
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
        """Forget the first `count` bytes, and the room that a long record took."""
        kept = self.fill - count
        if self.is_large or len(self.data) > self.capacity >= kept:
            # Never moved within a large array: its record may have been given away with it.
            self._move(count, max(self.capacity, kept))
        elif count:
            self.data[:kept] = self.data[count : self.fill]
        self.fill = kept
        self.offset += count

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()

    @property
    def is_large(self) -> bool:
        """Whether a record has outgrown what is usual."""
        return isinstance(self.data, mmap.mmap)

    def find(self, delimiter: bytes, start: int = 0) -> int:
        """Where the delimiter first stands, from `start` on; -1 if nowhere (an empty one never does)."""
        return self.data.find(delimiter, start, self.fill) if delimiter else -1

    def _move(self, start: int, capacity: int) -> None:
        if start == 0 and isinstance(self.data, mmap.mmap) and capacity > len(self.data):
            with suppress(BufferError, SystemError, OSError):
                # Pages are moved, not copied: a record of a gigabyte is never there twice.
                self.data.resize(capacity)
                return
        # A new array: the consumer may still hold a view of the old one, which forbids resizing it. A large
        # one is mapped, so that only what is filled takes memory.
        data = bytearray(capacity) if capacity < LARGE else map_memory(capacity)
        data[: self.fill - start] = memoryview(self.data)[start : self.fill]
        self.data = data


def overlaps_itself(delimiter: bytes) -> bool:
    r"""Whether two occurrences can share bytes, as in `"\n\n"`; such a file is read from its start."""
    return any(delimiter.startswith(delimiter[at:]) for at in range(1, len(delimiter)))


def find_first_byte(start: int, delimiter: bytes) -> int:
    """Where to begin reading so that the delimiter before `start` is seen."""
    return max(start - len(delimiter), 0)


def read_windows(
    stream: Stream,
    cut: Cut,
    read: Callable[[Window], Item],
    read_long: Callable[[Buffer], Iterator[Item]] | None = None,
) -> Iterator[Item]:
    """What `read` makes of the records of `cut`; `stream` begins at its `find_first_byte`.

    The room of a window is given back before its result is handed on, so that a huge record is not
    held twice. A record that does not end within `LONG` is left to `read_long`, which takes it away.
    """
    delimiter, stop = cut.delimiter, cut.stop
    block_bytes = max(cut.block_bytes, 2 * len(delimiter), len(BOM))
    buffer = Buffer(stream, find_first_byte(cut.start, delimiter), block_bytes)
    if not _find_start(buffer, cut):
        return
    target, searched = block_bytes, 0
    while stop is None or buffer.offset < stop:
        buffer.read(target)
        end = _find_end_of_records(buffer, stop, delimiter, searched)
        if end == 0 and buffer.fault:
            raise buffer.fault
        if end == 0 and buffer.ended:
            end = buffer.fill
        if end:
            alone = buffer.is_large and searched > 0
            item = read(Window(memoryview(buffer.data)[:end], buffer.offset, given=alone))
            buffer.drop(end)
            yield item
            del item  # before the next window is read: it may be huge
        elif buffer.ended:
            return
        elif buffer.fill > cut.max_record:
            item = read(Window(memoryview(buffer.data)[:200], buffer.offset, over_long=True))
            skip_record(buffer, delimiter)
            yield item
        elif read_long is not None and buffer.fill >= LONG:
            yield from read_long(buffer)
        else:
            # Beyond some size in steps, so that little of what follows a huge record is held with it.
            target = min(buffer.fill + min(buffer.fill, LARGE), cut.max_record + len(delimiter) + 1)
            searched = max(buffer.fill - len(delimiter) + 1, 0)
            continue
        target, searched = max(block_bytes, buffer.fill), 0


def _find_start(buffer: Buffer, cut: Cut) -> bool:
    """Drop what belongs to the range before, or the byte order mark; False if no record is left."""
    if cut.start == 0:
        buffer.read(len(BOM))
        if buffer.data[: len(BOM)] == BOM:
            buffer.drop(len(BOM))
        return True
    skip_record(buffer, cut.delimiter)
    if buffer.fault and not buffer.fill:
        raise buffer.fault
    return not (buffer.ended and not buffer.fill)


def skip_record(buffer: Buffer, delimiter: bytes) -> None:
    """Drop everything up to and including the next delimiter, keeping at most a block in memory."""
    while (at := buffer.find(delimiter)) < 0:
        if buffer.ended:
            buffer.drop(buffer.fill)
            return
        buffer.drop(max(buffer.fill - max(len(delimiter) - 1, 0), 0))
        buffer.read(buffer.capacity)
    buffer.drop(at + len(delimiter))


def _find_end_of_records(buffer: Buffer, stop: int | None, delimiter: bytes, searched: int) -> int:
    """Where the last whole record that starts before `stop` ends; 0 if it is not in the buffer.

    A record that no delimiter ended in the first `searched` bytes and that is huge stays alone.
    """
    width = len(delimiter)
    if not width:
        return 0
    if searched and buffer.is_large:
        at = buffer.find(delimiter, searched)
        return at + width if at >= 0 else 0
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
