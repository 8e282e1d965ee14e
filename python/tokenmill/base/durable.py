"""Files that are either whole or absent: temporary name, write(), fsync, rename, fsync of the directory.

Nothing is written through a memory map, because a full disk is SIGBUS there and an exception here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager
from platform import node
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill.base.platform import is_alive, sync, write_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from typing_extensions import Buffer

_TEMPORARY = ".tmp-"
# How much of a file is sent to the disk at a time, while more of it is still being made.
_EARLY_BYTES = 1 << 20
_PAGE_BYTES = 4096


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Name the file in errors of calls that know only its descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def canonical_json(value: Any) -> bytes:
    """`{"b": 1, "a": 2}` -> `b'{"a":2,"b":1}'`: the one spelling that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value in its canonical spelling, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_version(path: Path) -> tuple[int, ...] | None:
    """A value that changes whenever a file is published again; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def temporary_name(path: Path) -> Path:
    """A hidden neighbour of `path` that names its host and process, so that leftovers can be recognised."""
    owner = f"{node()}-{os.getpid()}-{os.urandom(4).hex()}"
    return path.with_name(f"{_TEMPORARY}{owner}-{path.name}")


def list_leftovers(directory: Path) -> Iterator[Path]:
    """The unfinished files and folders of dead processes of this host."""
    prefix = f"{_TEMPORARY}{node()}-"
    for path in directory.glob(f"{prefix}*") if directory.is_dir() else ():
        owner = path.name.removeprefix(prefix).split("-", 1)[0]
        if owner.isdigit() and int(owner) != os.getpid() and not is_alive(int(owner)):
            yield path


def sweep_leftovers(directory: Path) -> int:
    """Delete what dead processes of this host left unfinished; returns how many files and folders."""
    swept = 0
    for path in list_leftovers(directory):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        swept += 1
    return swept


def publish_bytes(path: Path, data: bytes) -> None:
    """Replace `path` with `data` at once: whoever opens it sees the old file or the new one, never a part."""
    file = DurableFile(path)
    try:
        file.write(data)
        file.publish()
    finally:
        file.discard()


@contextmanager
def stage_directory(output: Path) -> Iterator[Path]:
    """A folder beside `output`, which takes its name when all files are in it: a whole directory, or none."""
    staging = temporary_name(output)
    staging.mkdir(parents=True)
    try:
        yield staging
        for file in sorted(path for path in staging.rglob("*") if path.is_file()):
            sync(file)
        if output.exists():
            output.rmdir()
        staging.replace(output)
        sync(output.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def readable_json(value: Any, indent: int | None = 1) -> bytes:
    """JSON for people and machines; keys keep their order, so the version stays first.

    A file name may hold bytes that are not text, which Python keeps as lone surrogates: those are escaped.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def publish_json(path: Path, value: Any) -> None:
    """`publish_bytes` of readable JSON."""
    publish_bytes(path, readable_json(value))


class DurableFile:
    """A file under a temporary name that is hashed as it is written and renamed when it is whole."""

    def __init__(self, path: Path) -> None:
        """Open a temporary neighbour of `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.size = 0
        self._temporary: Path | None = temporary_name(path)
        self._hash = hashlib.sha256()
        self._patched = False
        self._sent = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._handle = os.open(self._temporary, flags, 0o644)

    def write(self, data: Buffer | NDArray[Any]) -> int:
        """Append all of `data`, however many system calls that takes."""
        view = memoryview(data)  # type: ignore[arg-type]
        if not view.nbytes:  # an empty array has no bytes to cast to
            return 0
        view = view.cast("B")
        self._hash.update(view)
        self.size += (length := len(view))
        with _name_file(self.path):
            while view:
                view = view[os.write(self._handle, view) :]
        if self.size - self._sent >= _EARLY_BYTES:
            # Start the disk now: waiting for all of it in `publish` took a tenth of a small job's time.
            # The last page is left, since more is written to it.
            whole = self.size // _PAGE_BYTES * _PAGE_BYTES
            _core.begin_writeback(self._handle, self._sent, whole - self._sent)
            self._sent = whole
        return length

    def write_head(self, data: bytes) -> None:
        """Overwrite the first bytes, for a header that counts what follows it."""
        self._patched = True
        view, at = memoryview(data), 0
        with _name_file(self.path):
            while at < len(view):  # however many system calls that takes
                at += write_at(self._handle, view[at:], at)

    def sha256(self) -> str:
        """Return the hash of the whole content."""
        return hash_file(self._temporary or self.path) if self._patched else self._hash.hexdigest()

    def publish(self) -> None:
        """Flush to the disk, close and rename."""
        if self._temporary is None:
            return
        with _name_file(self.path):
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = -1
            self._temporary.replace(self.path)
            self._temporary = None
            sync(self.path.parent)

    def discard(self) -> None:
        """Close and delete the temporary file unless it was published."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None
