"""Write files that are complete or absent: temporary name, write, fsync, rename, fsync of the directory.

Nothing is written through a memory map, because a full disk raises SIGBUS there and an exception here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer

from tokenmill import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray


_TEMPORARY = ".tmp-"
_WINDOWS = not hasattr(os, "pwrite")
# Progress files of a running job; they are not part of a dataset.
PROGRESS = "progress.json"
# Writeback starts after each such number of bytes, while the file is still being written.
_EARLY_BYTES = 1 << 20
_PAGE_BYTES = 4096


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Name the file in errors of calls that have only its descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, independent of key order, as 64 hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_version(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes whenever a file is published again, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def cache_root() -> Path:
    """Return `TOKENMILL_CACHE`, else `tokenmill` in the user's cache directory."""
    given = os.environ.get("TOKENMILL_CACHE")
    return Path(given or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenmill")


def find_existing(path: Path) -> Path:
    """Return the directory itself, or the closest one above it that exists."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.is_dir())


def sync(path: Path) -> None:
    """Flush a file, or a rename in a directory, to the disk."""
    if _WINDOWS and path.is_dir():
        return  # Windows cannot open directories, and flushes their changes by itself
    handle = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_name(path: Path) -> Path:
    """Return a hidden name next to `path` with host and process, so that leftovers can be recognized."""
    owner = f"{node()}-{os.getpid()}-{os.urandom(4).hex()}"
    return path.with_name(f"{_TEMPORARY}{owner}-{path.name}")


def sweep_leftovers(directory: Path, name: str = "") -> None:
    """Delete unfinished files and folders of dead processes of this host, all or those for `name`."""
    prefix = f"{_TEMPORARY}{node()}-"
    for path in directory.glob(f"{prefix}*{name}") if directory.is_dir() else ():
        import psutil

        owner = path.name.removeprefix(prefix).split("-", 1)[0]
        if not owner.isdigit() or int(owner) == os.getpid() or psutil.pid_exists(int(owner)):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def publish_bytes(path: Path, data: bytes) -> None:
    """Replace `path` with `data` atomically."""
    file = DurableFile(path)
    try:
        file.write(data)
        file.publish()
    finally:
        file.discard()


@contextmanager
def stage_directory(output: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to `output` when all files are in it."""
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
    """Return indented JSON in UTF-8 with keys in insertion order; lone surrogates are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def publish_json(path: Path, value: Any) -> None:
    """Replace `path` with readable JSON atomically."""
    publish_bytes(path, readable_json(value))


class DurableFile:
    """A file under a temporary name, hashed while it is written and renamed when it is complete."""

    def __init__(self, path: Path) -> None:
        """Open a temporary neighbour of `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.size = 0
        self._temporary = temporary_name(path)
        self._hash = hashlib.sha256()
        self._patched = False
        self._sent = 0
        self._file = self._temporary.open("xb")

    def write(self, data: Buffer | NDArray[Any]) -> int:
        """Append all of `data` and return the number of bytes."""
        view = memoryview(data)  # type: ignore[arg-type]
        if not view.nbytes:  # an empty array has no bytes to cast to
            return 0
        view = view.cast("B")
        self._hash.update(view)
        self.size += len(view)
        with _name_file(self.path):
            self._file.write(view)
            if self.size - self._sent >= _EARLY_BYTES:
                # Start writeback early, because fsync in `publish` would otherwise wait for the whole file.
                # The last page is left out, since more is written to it.
                self._file.flush()
                whole = self.size // _PAGE_BYTES * _PAGE_BYTES
                _core.begin_writeback(self._file.fileno(), self._sent, whole - self._sent)
                self._sent = whole
        return len(view)

    def write_head(self, data: bytes) -> None:
        """Overwrite the first bytes, for a header with the size of the data after it."""
        self._patched = True
        with _name_file(self.path):
            self._file.seek(0)
            self._file.write(data)
            self._file.seek(0, os.SEEK_END)

    def sha256(self) -> str:
        """Return the hash of all that was written; the file must not be published yet."""
        if not self._patched:
            return self._hash.hexdigest()
        self._file.flush()
        return hash_file(self._temporary)

    def publish(self) -> None:
        """Flush to the disk, close and rename."""
        with _name_file(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._temporary.replace(self.path)
            sync(self.path.parent)

    def discard(self) -> None:
        """Close and delete the temporary file unless it was published."""
        with suppress(OSError):  # the rest of a file that is deleted need not be written
            self._file.close()
        self._temporary.unlink(missing_ok=True)


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """Yield a free path below `parent` that is removed at the end; leftovers of dead processes go first."""
    sweep_leftovers(parent, f"-{name}")
    folder = temporary_name(parent / name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_progress(root: Path) -> dict[str, Any]:
    """Return the progress of the job in a directory, or an empty object."""
    try:
        value = json.loads((root / PROGRESS).read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
