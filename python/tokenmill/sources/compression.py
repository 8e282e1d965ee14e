"""Compressed inputs as streams of decoded bytes: any number of members, bounded memory, capped growth.

Arrow's streams decode gzip, zstd, bz2 and lz4 without the GIL, go on over the end of a member, and
tell a truncated file from a finished one; xz is the standard library's. A new compression is one more
entry of `COMPRESSIONS`, and nothing elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tokenmill.errors import TokenmillError
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.raw import RawFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.sources.model import InputFile


def _open_with_arrow(raw: RawFile, name: str) -> Any:
    import pyarrow as pa  # here, since most inputs are not compressed

    return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), name)


def _open_xz(raw: RawFile, _name: str) -> Any:
    import lzma

    return lzma.LZMAFile(cast("BinaryIO", raw))


@dataclass(frozen=True, slots=True)
class Compression:
    """How a compressed file is named, how it begins, and what decodes it."""

    name: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...]
    open: Callable[[RawFile, str], Any] = _open_with_arrow


# A zstd file may begin with a frame to be skipped, whose first byte is 0x50 to 0x5f.
_SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
COMPRESSIONS = (
    Compression("gzip", (".gz", ".gzip"), (b"\x1f\x8b",)),
    Compression("zstd", (".zst", ".zstd"), (b"\x28\xb5\x2f\xfd", *_SKIPPABLE)),
    Compression("bz2", (".bz2",), (b"BZh",)),
    Compression("xz", (".xz",), (b"\xfd7zXZ\x00",), _open_xz),
    Compression("lz4", (".lz4",), (b"\x04\x22\x4d\x18",)),
)
_BY_NAME = {compression.name: compression for compression in COMPRESSIONS}


def find_compression(suffix: str) -> str | None:
    """`".zst"` -> `"zstd"`."""
    return next((kind.name for kind in COMPRESSIONS if suffix in kind.suffixes), None)


def detect_compression(head: bytes) -> str | None:
    """The compression that the first bytes show, if any."""
    return next((kind.name for kind in COMPRESSIONS if head.startswith(kind.magic)), None)


# Below this many decoded bytes a high ratio proves nothing: a file of blank lines is no bomb.
_FREE_BYTES = 64 << 20
_STEP_BYTES = 256 << 10


class DecodedStream:
    """Reads decoded bytes and knows how far into the compressed file it is.

    A decoder that meets a fault drops what it decoded in the same call. So the file is decoded once
    more up to there and then byte by byte: what comes before a fault is the same whatever the
    block size, and nothing of it is lost.
    """

    def __init__(self, raw: RawFile, file: InputFile, max_expansion: int) -> None:
        import lzma  # here, since most inputs are not compressed

        import pyarrow as pa

        # What the decoders raise; what the file itself raises says nothing about its bytes.
        self._faults = (EOFError, OSError, lzma.LZMAError, pa.ArrowException)
        self._raw = raw
        self._file = file
        self._limit = max_expansion
        self._decoded = 0
        self._step = _STEP_BYTES
        self._stream: Any = self._open_decoder()
        self._first: Any = None

    def _open_decoder(self) -> Any:
        kind = _BY_NAME[self._file.compression or ""]
        return kind.open(self._raw, kind.name)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end."""
        try:
            count = cast("int", self._stream.readinto(buffer[: self._step]))
        except TokenmillError:
            raise  # a fault of the machine, or another file: nothing is wrong with these bytes
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
        """Decode up to where the last good call ended, then go on byte by byte."""
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


class PlainStream:
    """Reads the bytes `[start, size)` of a plain file and notices when it has become shorter."""

    def __init__(self, raw: RawFile, file: InputFile, start: int) -> None:
        self._raw = raw
        self._file = file
        self._at = start
        raw.seek(start)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; 0 means the end of the file."""
        count = self._raw.readinto(buffer)
        self._at += count
        if count == 0 and self._at < self._file.size:
            detail = f"it had {self._file.size} bytes when planned and has only {self._at} now"
            raise FileFaultError("truncated", f"{self._file.url}:{self._at}", detail)
        return count

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


def open_stream(file: InputFile, start: int, max_expansion: int) -> DecodedStream | PlainStream:
    """The decoded bytes of an input from `start` on (0 for a compressed one)."""
    raw = RawFile(file)
    if file.compression is None:
        return PlainStream(raw, file, start)
    return DecodedStream(raw, file, max_expansion)
