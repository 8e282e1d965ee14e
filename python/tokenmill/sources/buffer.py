"""A buffer over a stream of bytes that finds whole records in it.

A record belongs to the range in which it starts, so ranges cut anywhere yield each record once. A
record starts at 0 and after every delimiter.
"""

from __future__ import annotations

from typing import Any

from tokenmill.sources.model import FileFaultError

BOM = b"\xef\xbb\xbf"


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
