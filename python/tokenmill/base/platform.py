"""Differences between systems: flushing, processes, limits. No other module asks which system this is.

Each function uses what the system has, or else the next best thing, so that the package imports and
works on Linux, macOS and Windows; `tests/unit/test_platform.py` takes the parts of Linux away one by one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

_NO_LIMIT = 1 << 20


def sync(path: Path) -> None:
    """Make what is in a file, or a rename in a directory, survive a power cut."""
    if fcntl is None and path.is_dir():
        return  # Windows cannot open directories, and flushes their changes by itself
    handle = os.open(path, os.O_RDONLY if fcntl is not None else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_at(handle: int, data: memoryview, offset: int) -> int:
    """Overwrite bytes of an open file; returns how many the system took."""
    if hasattr(os, "pwrite"):
        return os.pwrite(handle, data, offset)
    before = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, offset, os.SEEK_SET)
    try:
        return os.write(handle, data)
    finally:
        os.lseek(handle, before, os.SEEK_SET)


def is_alive(process: int) -> bool:
    """True if this host runs a process of that number."""
    if fcntl is None:  # on Windows, signal 0 would end the process
        import psutil

        return bool(psutil.pid_exists(process))
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def count_cores() -> tuple[int, int]:
    """Return the cores of this host, and those allowed for this process."""
    host = os.cpu_count() or 1
    return host, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else host


def quote(word: str) -> str:
    """Quote a word of a command line for this system's shell."""
    import shlex
    import subprocess

    return shlex.quote(word) if os.name == "posix" else subprocess.list2cmdline([word])


def open_file_limit() -> int:
    """Return how many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else 0
    return soft if soft > 0 else _NO_LIMIT
