"""Read stored and decoded bytes of an input, and check that it is still the file that was planned.

A fault of the machine (a disk, a network, too many open files) is independent of the content. It is
retried, and then the unit fails. Such a fault is never counted as a bad record.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, BinaryIO, TypeVar, cast

from typing_extensions import Buffer

from tokenmill.errors import InputError, InputNotFoundError, InputUnavailableError, TokenmillError
from tokenmill.sources.model import MEMORY, ChangedInputError, FileFaultError, InputFile
from tokenmill.sources.stores import first_line, is_remote, open_filesystem, remote_errors

T = TypeVar("T")
# Seconds between the attempts of one call.
PAUSES = (0.1, 0.4, 1.6)
_READ_AHEAD_BYTES = 8 << 20
_NOT_A_FILE = "a pipe, a socket or a device: write it to a file first"
# Errors of a path that is not a file, which a retry cannot change.
_UNREADABLE = {errno.ELOOP: "a link that leads back to itself", errno.ENXIO: _NOT_A_FILE}
# Names under which stores list the version of an object, the most reliable first.
_VERSION_KEYS = (
    *("ETag", "etag", "e_tag", "blob_id", "md5Hash", "crc32c"),
    *("LastModified", "last_modified", "mtime", "created"),
)
_STEP_BYTES = 256 << 10
HEAD_BYTES = 1 << 20


def local_identity(status: os.stat_result) -> str:
    """Return size and mtime: `"120-1700000000000000000"`."""
    return f"{status.st_size}-{status.st_mtime_ns}"


def remote_identity(info: dict[str, Any]) -> str:
    """Return size and the version that the store lists: an etag, a checksum or a time."""
    version = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), None)
    return str(info.get("size")) if version is None else f"{info.get('size')}-{version.strip(chr(34))}"


def retry(url: str, work: Callable[[], T]) -> T:
    """Return the result of `work`; retry after a fault of the machine or of a store."""
    pauses = iter(PAUSES)
    while True:
        try:
            return work()
        except FileNotFoundError as error:
            raise InputNotFoundError(
                f"{url}: the file existed when the job was planned and is gone"
            ) from error
        except remote_errors() as error:
            if isinstance(error, PermissionError) and not is_remote(url):
                raise FileFaultError("unreadable", url, f"no permission ({error})") from error
            if (words := _UNREADABLE.get(getattr(error, "errno", None) or 0)) is not None:
                raise FileFaultError("unreadable", url, words) from error
            pause = next(pauses, None)
            if pause is None:
                raise InputUnavailableError(
                    f"{url}: cannot be read, tried {len(PAUSES) + 1} times: {first_line(error)}. This is a "
                    "fault of the machine or the store, not of the content, so nothing was left out. Fix "
                    "the cause and run the same command again"
                ) from error
            time.sleep(pause)


class RawFile(io.RawIOBase):
    """An open input that reopens itself at its position after a fault of the machine."""

    def __init__(self, file: InputFile) -> None:
        """Open `file` and check that it is the one that was planned."""
        super().__init__()
        self._input = file
        self._file: BinaryIO | None = None
        self._at = 0
        self._attempt(lambda _: None)

    def _attempt(self, work: Callable[[Any], T]) -> T:
        def once() -> T:
            try:
                if self._file is None:
                    self._file = _open(self._input)
                    self._file.seek(self._at)
                return work(self._file)
            except BaseException:
                self._close_file()
                raise

        return retry(self._input.url, once)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def readinto(self, buffer: Buffer) -> int:
        """Fill the start of `buffer`; 0 means the end."""
        count = self._attempt(lambda file: cast("int", file.readinto(buffer)))
        self._at += count
        return count

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, or the rest; fewer only at the end, which Arrow relies on."""
        data = self._attempt(lambda file: cast("bytes", file.read(size)))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position and return it."""
        self._at = self._attempt(lambda file: cast("int", file.seek(offset, whence)))
        return self._at

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    seekable = readable

    def close(self) -> None:
        """Close the file."""
        self._close_file()
        super().close()


def _open(file: InputFile) -> BinaryIO:
    """Open the file; raise unless it is the one that was planned."""
    if not file.local:
        system, path = _look_up(file)
        # Large requests; each client has its own option for them.
        obstore = type(system).__module__.startswith("obstore")
        options: dict[str, Any] = {} if obstore else {"cache_type": "readahead"}
        options["buffer_size" if obstore else "block_size"] = _READ_AHEAD_BYTES
        return cast("BinaryIO", system.open(path, "rb", **options))
    status = os.stat(file.url)  # noqa: PTH116 - a path object cannot hold every name
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for a writer
        raise FileFaultError("unreadable", file.url, _NOT_A_FILE)
    _compare(file, local_identity(status))
    return open(file.url, "rb")  # noqa: PTH123


def _look_up(file: InputFile) -> tuple[Any, str]:
    system, path = open_filesystem(file.url)
    system.invalidate_cache()  # a cached listing would show the object as it was
    _compare(file, remote_identity(system.info(path)))
    return system, path


def _compare(file: InputFile, found: str) -> None:
    if found != file.identity:
        raise ChangedInputError(
            f"{file.url}: the file changed after the job was planned (size and version were {file.identity}, "
            f"now they are {found}). Plan again, or restore the old file"
        )


@contextmanager
def require_unchanged(file: InputFile) -> Iterator[None]:
    """Raise `ChangedInputError` if the input is another file after the context, also if it looks damaged."""

    def check() -> None:
        if file.local:
            _compare(file, local_identity(os.stat(file.url)))  # noqa: PTH116 - keeps every name
        else:
            _look_up(file)

    fault = None
    try:
        yield
    except InputError as error:
        fault = error
    if file.format != MEMORY:
        retry(file.url, check)
    if fault is not None:
        raise fault


class DecodedStream:
    """Reads decoded bytes of a compressed file, of any number of members.

    Arrow decodes gzip, zstd, bz2 and lz4 without the GIL and distinguishes a truncated file from a complete
    one. xz is decoded by the standard library.

    On a fault, a decoder discards the output of that call. The file is then decoded again up to that call and
    from there byte by byte, so that the data read before a fault does not depend on the block size.
    """

    def __init__(self, file: InputFile) -> None:
        import lzma  # here, since most inputs are not compressed

        import pyarrow as pa

        # Errors of the decoders; errors of reading the file are subclasses of `TokenmillError`.
        self._faults = (EOFError, OSError, lzma.LZMAError, pa.ArrowException)
        self._raw = RawFile(file)
        self._file = file
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
            sizes = f"{self._file.compression}, {self._file.size} bytes on disk, {self._decoded} decoded"
            place = f"{self._file.url}:{self._raw.tell()}"
            reason = "truncated" if truncated else "damaged"
            raise FileFaultError(reason, place, f"{error} ({sizes})") from error
        self._decoded += count
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


def open_stream(file: InputFile, start: int) -> DecodedStream | RawFile:
    """Open the decoded bytes of an input from `start` on (0 for a compressed one)."""
    if file.compression is not None:
        return DecodedStream(file)
    raw = RawFile(file)
    raw.seek(start)
    return raw


def read_start(file: InputFile, most: int) -> Iterator[bytes]:
    """Yield the first decoded bytes in blocks; fewer if the file is short or corrupt."""
    buffer = memoryview(bytearray(HEAD_BYTES))
    with closing(open_stream(file, 0)) as stream, suppress(FileFaultError):
        while most > 0 and (count := stream.readinto(buffer[:most])):
            yield buffer[:count].tobytes()
            most -= count


def read_head(file: InputFile) -> bytes:
    """Return the first decoded bytes, for detecting the format and the fields."""
    return b"".join(read_start(file, HEAD_BYTES))
