"""What a directory's disk can do, by trying: speed, free space, locks, and the kind of file system.

The kernel's `rotational` flag is wrong on most virtual disks, so speed is a timed write and read.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tokenmill.base.platform import forget_pages, try_lock, write_at

PROBE_BYTES = 16 << 20
CHUNK = 1 << 20
SMALL_WRITES = 8


@dataclass(frozen=True)
class DiskSpeed:
    """Bytes per second of a flushed write and of a read, and seconds for one small flushed write."""

    write: float
    read: float
    flush_seconds: float

    @property
    def kind(self) -> str:
        """`"fast"` as an SSD flushes, `"slow"` as a spinning or far-away disk does."""
        return "slow" if self.flush_seconds > 0.02 or self.write < 60e6 else "fast"


def find_existing(path: Path) -> Path:
    """The directory itself, or the closest one above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path if path.is_dir() else path.parent


def probe(directory: Path, size: int = PROBE_BYTES) -> DiskSpeed:
    """Write, flush and read back `size` bytes in `directory`; OSError if that is not possible."""
    import tempfile  # here, since it brings every kind of compression along

    # Random bytes: some file systems compress, and would look faster than they are for tokens.
    block = os.urandom(CHUNK)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".tokenmill-probe-") as file:
        started = time.perf_counter()
        for _ in range(max(1, size // CHUNK)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        written = time.perf_counter()
        forget_pages(file.fileno())  # so that the read goes to the disk
        file.seek(0)
        begin_read = time.perf_counter()
        while file.read(CHUNK):
            pass
        read = time.perf_counter()
        flush = min(_time_small_flush(file.fileno()) for _ in range(SMALL_WRITES))
    size = max(1, size // CHUNK) * CHUNK
    return DiskSpeed(size / max(1e-9, written - started), size / max(1e-9, read - begin_read), flush)


def _time_small_flush(descriptor: int) -> float:
    started = time.perf_counter()
    write_at(descriptor, memoryview(b"x" * 4096), 0)
    os.fsync(descriptor)
    return time.perf_counter() - started


def free_bytes(path: Path) -> int:
    """What an ordinary user may still write there."""
    import shutil  # here, since it brings every kind of compression along

    return shutil.disk_usage(find_existing(path)).free


def find_filesystem(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The type of the file system that holds `path`: `"ext4"`, `"nfs4"`, or `"unknown"`."""
    target = find_existing(path).resolve()
    best, kind = "", "unknown"
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return kind
    for line in lines:
        parts = line.split()
        if len(parts) >= 3 and len(parts[1]) >= len(best) and target.is_relative_to(parts[1]):
            best, kind = parts[1], parts[2]
    return kind


def locks_work(directory: Path) -> bool:
    """Whether a lock taken through one open file is refused through a second one."""
    import tempfile

    with (
        tempfile.NamedTemporaryFile(dir=directory, prefix=".tokenmill-probe-") as first,
        Path(first.name).open("r+b") as second,
    ):
        return try_lock(first.file) is True and try_lock(second) is False
