"""Compressed inputs as streams of decoded bytes: any number of members, bounded memory, capped growth.

Arrow's streams decode gzip, zstd, bz2 and lz4 without the GIL, go on over the end of a member, and
tell a truncated file from a finished one; xz is the standard library's.
"""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pyarrow as pa

from tokenmill.sources.faults import FileFaultError

if TYPE_CHECKING:
    from tokenmill.sources.model import InputFile

# Below this many decoded bytes a high ratio proves nothing: a file of blank lines is no bomb.
_FREE_BYTES = 64 << 20


class DecodedStream:
    """Reads decoded bytes and knows how far into the compressed file it is."""

    def __init__(self, raw: BinaryIO, file: InputFile, max_expansion: int) -> None:
        self._raw = raw
        self._file = file
        self._limit = max_expansion
        self._decoded = 0
        self._stream: Any
        if file.compression == "xz":
            self._stream = lzma.LZMAFile(raw)  # noqa: SIM115 - closed by `close`
        else:
            self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), file.compression)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end."""
        try:
            count = cast("int", self._stream.readinto(buffer))
        except EOFError as error:
            raise self._fault("truncated", str(error)) from error
        except (OSError, lzma.LZMAError, pa.ArrowException) as error:
            kind = "truncated" if "runcated" in str(error) else "damaged"
            raise self._fault(kind, str(error)) from error
        self._decoded += count
        if self._decoded > _FREE_BYTES and self._decoded > self._limit * max(self._raw.tell(), 1):
            raise self._fault("bomb", f"{self._decoded} bytes came out of the first {self._raw.tell()}")
        return count

    def close(self) -> None:
        """Close the decoder and the file."""
        if not self._stream.closed:
            self._stream.close()
        self._raw.close()

    def _fault(self, reason: str, detail: str) -> FileFaultError:
        place = f"{self._file.url}:{self._raw.tell()}"
        return FileFaultError(
            reason,
            place,
            f"{detail} ({self._file.compression}, {self._file.size} bytes on disk, {self._decoded} decoded)",
        )


class PlainStream:
    """Reads the bytes `[start, size)` of a plain file and notices when it has become shorter."""

    def __init__(self, raw: BinaryIO, file: InputFile, start: int) -> None:
        self._raw = raw
        self._file = file
        self._at = start
        raw.seek(start)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end of the file."""
        try:
            count = cast("int", self._raw.readinto(buffer))  # type: ignore[attr-defined]
        except OSError as error:
            raise FileFaultError("unreadable", f"{self._file.url}:{self._at}", str(error)) from error
        self._at += count
        if count == 0 and self._at < self._file.size:
            detail = f"{self._file.size} bytes when planned, and no more than {self._at} now"
            raise FileFaultError("truncated", f"{self._file.url}:{self._at}", detail)
        return count

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


def open_stream(
    raw: BinaryIO, file: InputFile, start: int, max_expansion: int
) -> DecodedStream | PlainStream:
    """The decoded bytes of an input from `start` on (0 for a compressed one)."""
    if file.compression is None:
        return PlainStream(raw, file, start)
    return DecodedStream(raw, file, max_expansion)
