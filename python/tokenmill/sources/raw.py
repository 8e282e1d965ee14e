"""The bytes of an input as they are stored, and whether it is still the file that was planned.

A fault of the machine (a disk, a network, too many open files) says nothing about the content. It is tried
again, and then ends the unit: no policy for bad records counts it as one.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from tokenmill.errors import InputError, InputNotFoundError, InputUnavailableError
from tokenmill.sources.faults import ChangedInputError, FileFaultError
from tokenmill.sources.model import MEMORY
from tokenmill.sources.stores import first_line, is_remote, open_filesystem, remote_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from tokenmill.sources.model import InputFile

T = TypeVar("T")
# Seconds between the attempts of one call.
PAUSES = (0.1, 0.4, 1.6)
_READ_AHEAD_BYTES = 8 << 20
_NO_PLAIN_FILE = "a pipe, a socket or a device: write it to a file first"
# What a path that is no file answers with, however often one asks.
_NO_FILES = {errno.ELOOP: "a link that leads back to itself", errno.ENXIO: _NO_PLAIN_FILE}
# What stores call the version of an object, the surest first.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "e_tag",
    "blob_id",
    "md5Hash",
    "crc32c",
    "LastModified",
    "last_modified",
    "mtime",
    "created",
)


def local_identity(stat: os.stat_result) -> str:
    """Size and mtime: `"120-1700000000000000000"`."""
    return make_identity(stat.st_size, stat.st_mtime_ns)


def make_identity(size: int, modified: int) -> str:
    """The identity of a local file of that size, last changed so many nanoseconds after 1970."""
    return f"{size}-{modified}"


def remote_identity(info: dict[str, Any]) -> str:
    """Size and whatever the store has to tell versions apart: an etag, a checksum, a time."""
    for key in _VERSION_KEYS:
        if info.get(key):
            return f"{info.get('size')}-{str(info[key]).strip(chr(34))}"
    return str(info.get("size"))


def retry(url: str, work: Callable[[], T]) -> T:
    """What `work` gives; a fault of the machine or of a store is tried again some times."""
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
            if (words := _NO_FILES.get(getattr(error, "errno", None) or 0)) is not None:
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
    """An open input that opens itself again, where it was, after a fault of the machine."""

    def __init__(self, file: InputFile) -> None:
        """Open `file` after a check that it is the one that was planned."""
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
                self._let_go()
                raise

        return retry(self._input.url, once)

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def readinto(self, buffer: Buffer) -> int:
        """Fill the start of `buffer`; 0 means the end."""
        count = self._attempt(lambda file: cast("int", file.readinto(buffer)))
        self._at += count
        return count

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, or all that are left; fewer only at the end, since Arrow takes fewer for the end."""
        data = self._read_some(size)
        while data and len(data) < size and (more := self._read_some(size - len(data))):
            data += more
        return data

    def _read_some(self, size: int) -> bytes:
        data = self._attempt(lambda file: cast("bytes", file.read(size)))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, as any file does."""
        self._at = self._attempt(lambda file: cast("int", file.seek(offset, whence)))
        return self._at

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._let_go()
        super().close()


def _open(file: InputFile) -> BinaryIO:
    """The file itself, unbuffered; raises unless it is the one that was planned."""
    if not file.local:
        system, path = _look_up(file)
        return cast("BinaryIO", system.open(path, "rb", **_choose_buffering(system)))
    # At once: a pipe would otherwise wait for a writer for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(file.url, flags)
    try:
        _compare(file, local_identity(_require_plain(file, os.fstat(handle))))
    except BaseException:
        os.close(handle)
        raise
    return cast("BinaryIO", os.fdopen(handle, "rb", buffering=0))


def _require_plain(file: InputFile, status: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        raise FileFaultError("unreadable", file.url, _NO_PLAIN_FILE)
    return status


def _look_up(file: InputFile) -> tuple[Any, str]:
    system, path, identity = _ask(file.url)
    _compare(file, identity)
    return system, path


def find_remote_identity(url: str) -> str:
    """What a remote file is now: its size and version."""
    return retry(url, lambda: _ask(url)[2])


def _ask(url: str) -> tuple[Any, str, str]:
    system, path = open_filesystem(url)
    system.invalidate_cache()  # a cached listing would show the object as it was
    return system, path, remote_identity(system.info(path))


def _choose_buffering(system: Any) -> dict[str, Any]:
    """How to ask for large requests: each kind of client has its own word for it."""
    if type(system).__module__.startswith("obstore"):
        return {"buffer_size": _READ_AHEAD_BYTES}
    return {"block_size": _READ_AHEAD_BYTES, "cache_type": "readahead"}


def _compare(file: InputFile, found: str) -> None:
    if found != file.identity:
        raise ChangedInputError(
            f"{file.url}: the file changed after the job was planned (size and version were {file.identity}, "
            f"now they are {found}). Plan again, or restore the old file"
        )


def check_unchanged(file: InputFile) -> int | None:
    """Raise `ChangedInputError` unless an input is still the one that was planned; give its inode."""
    if file.format == MEMORY:
        return None

    def look() -> int | None:
        if not file.local:
            _look_up(file)
            return None
        status = os.stat(file.url)  # noqa: PTH116 - a path object could not hold every name
        _compare(file, local_identity(status))
        return status.st_ino

    return retry(file.url, look)


@contextmanager
def require_unchanged(file: InputFile) -> Iterator[None]:
    """Whatever is read of an input inside counts only if the input is the same before and after.

    A file that replaces another may have the same size and time, but not the same inode.
    """
    before = check_unchanged(file) if file.local else None
    try:
        yield
    except InputError:
        # What looks like damage may be a file that somebody is writing.
        _check_same(file, before)
        raise
    _check_same(file, before)


def _check_same(file: InputFile, before: int | None) -> None:
    after = check_unchanged(file)
    if before is not None and after != before:
        raise ChangedInputError(
            f"{file.url}: another file replaced it while it was being read. Run the same command again when "
            "nothing is writing to the inputs"
        )
