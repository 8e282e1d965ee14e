"""Describe a directory's disk: free space, the type of its file system, and locks."""

from __future__ import annotations

import shutil
from pathlib import Path


def find_existing(path: Path) -> Path:
    """The directory itself, or the closest one above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path if path.is_dir() else path.parent


def free_bytes(path: Path) -> int:
    """What an ordinary user may still write there."""
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
    """Return True if a lock that is held cannot be taken a second time."""
    from filelock import FileLock, Timeout  # here, since importing it takes 50 ms

    path = directory / ".tokenmill-probe.lock"
    try:
        with FileLock(path), FileLock(path).acquire(blocking=False):
            return False
    except Timeout:
        return True
    finally:
        path.unlink(missing_ok=True)
