"""Describe disks and directories: free space, file system, locks, and the cache directory of this user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def cache_root() -> Path:
    """Return `TOKENMILL_CACHE`, else `tokenmill` in the user's cache directory."""
    given = os.environ.get("TOKENMILL_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenmill"


def find_existing(path: Path) -> Path:
    """Return the directory itself, or the closest one above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path if path.is_dir() else path.parent


def free_bytes(path: Path) -> int:
    """Return the bytes that an ordinary user may still write there."""
    return shutil.disk_usage(find_existing(path)).free


def find_filesystem(path: Path) -> str:
    """Return the type of the file system that holds `path`: `"ext4"`, `"nfs4"`, or `"unknown"`."""
    import psutil

    target = find_existing(path).resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if target.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def locks_work(directory: Path) -> bool:
    """True if a lock that is held cannot be taken a second time."""
    from filelock import FileLock, Timeout  # here, since importing it takes 50 ms

    path = directory / ".tokenmill-probe.lock"
    try:
        with FileLock(path), FileLock(path).acquire(blocking=False):
            return False
    except Timeout:
        return True
    finally:
        path.unlink(missing_ok=True)
