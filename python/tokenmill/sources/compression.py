"""Compressed inputs as streams of decoded bytes: any number of members, bounded memory, capped expansion.

Arrow decodes gzip, zstd, bz2 and lz4 without the GIL, continues over the end of a member, and distinguishes a
truncated file from a complete one. xz is decoded by the standard library.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tokenmill.errors import TokenmillError
from tokenmill.sources.model import FileFaultError
from tokenmill.sources.raw import RawFile

if TYPE_CHECKING:
    from tokenmill.sources.model import InputFile

SUFFIXES = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bz2",
    ".xz": "xz",
    ".lz4": "lz4",
}
# A zstd file may begin with a skippable frame, whose first byte is 0x50 to 0x5f.
_SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
_MAGIC = {
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd", *_SKIPPABLE),
    "bz2": (b"BZh",),
    "xz": (b"\xfd7zXZ\x00",),
    "lz4": (b"\x04\x22\x4d\x18",),
}
# Below this many decoded bytes a high ratio proves nothing: a file of blank lines is not a bomb.
_FREE_BYTES = 64 << 20
_STEP_BYTES = 256 << 10
HEAD_BYTES = 1 << 20


def detect_compression(head: bytes) -> str | None:
    """Return the compression of a file that begins with `head`, or None."""
    return next((name for name, magic in _MAGIC.items() if head.startswith(magic)), None)


class DecodedStream:
    """Reads decoded bytes of a compressed file.

    A decoder that meets a fault drops what it decoded in the same call. So the file is decoded again up to
    there and then byte by byte: what is read before a fault does not depend on the block size.
    """

    def __init__(self, file: InputFile, max_expansion: int) -> None:
        import lzma  # here, since most inputs are not compressed

        import pyarrow as pa

        # Errors of the decoders; those of the file itself say nothing about its bytes.
        self._faults = (EOFError, OSError, lzma.LZMAError, pa.ArrowException)
        self._raw = RawFile(file)
        self._file = file
        self._limit = max_expansion
        self._decoded = 0
        self._step = _STEP_BYTES
        self._stream = self._open_decoder()
        self._first: Any = None

    def _open_decoder(self) -> Any:
        if self._file.compression == "xz":
            import lzma

            return lzma.LZMAFile(cast("BinaryIO", self._raw))
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), self._file.compression)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end."""
        try:
            count = cast("int", self._stream.readinto(buffer[: self._step]))
        except TokenmillError:
            raise  # a fault of the machine, or another file
        except self._faults as error:
            if self._step > 1:
                self._start_over()
                return self.readinto(buffer)
            truncated = isinstance(error, EOFError) or "runcated" in str(error)
            raise self._explain_fault("truncated" if truncated else "damaged", str(error)) from error
        self._decoded += count
        if self._decoded > _FREE_BYTES and self._decoded > self._limit * max(self._raw.tell(), 1):
            raise self._explain_fault(
                "bomb", f"{self._decoded} bytes came out of the first {self._raw.tell()}"
            )
        return count

    def _start_over(self) -> None:
        """Decode up to where the last good call ended, then continue byte by byte."""
        self._first = self._stream  # kept: a decoder that is collected closes the file under it
        self._raw.seek(0)
        self._stream = self._open_decoder()
        self._step = 1
        left = self._decoded
        while left and (data := self._stream.read(min(left, _STEP_BYTES))):
            left -= len(data)

    def close(self) -> None:
        """Close the decoder and the file."""
        if not self._stream.closed:
            self._stream.close()
        self._raw.close()

    def _explain_fault(self, reason: str, detail: str) -> FileFaultError:
        sizes = f"{self._file.compression}, {self._file.size} bytes on disk, {self._decoded} decoded"
        return FileFaultError(reason, f"{self._file.url}:{self._raw.tell()}", f"{detail} ({sizes})")


def open_stream(file: InputFile, start: int, max_expansion: int) -> DecodedStream | RawFile:
    """Open the decoded bytes of an input from `start` on (0 for a compressed one)."""
    if file.compression is not None:
        return DecodedStream(file, max_expansion)
    raw = RawFile(file)
    raw.seek(start)
    return raw


def read_head(file: InputFile, max_expansion: int) -> bytes:
    """Return the first decoded bytes; fewer if the file is short or damaged, which reading it reports."""
    buffer, fill = bytearray(HEAD_BYTES), 0
    with closing(open_stream(file, 0, max_expansion)) as stream, suppress(FileFaultError):
        while fill < HEAD_BYTES and (count := stream.readinto(memoryview(buffer)[fill:])):
            fill += count
    return bytes(buffer[:fill])
