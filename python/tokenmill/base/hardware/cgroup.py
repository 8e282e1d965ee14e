"""Limits that a container or scheduler sets: CPU quota and memory, from cgroup v1 and v2.

A limit may be set at any level between this process's group and the root, so each level is read and the
tightest one counts. `root` and `membership` are parameters so that a test can lay out a hierarchy of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
# v1 says "no limit" with a huge page-aligned number; nobody has an exbibyte of memory.
NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Limits:
    """What the group may use; None is no limit. `cpus` may be a fraction."""

    cpus: float | None = None
    memory: int | None = None
    memory_used: int | None = None


def read_limits(root: Path = ROOT, membership: Path = MEMBERSHIP) -> Limits:
    """The tightest limits on this process: `cpu.max "150000 100000"` -> `cpus=1.5`."""
    paths = _read_membership(membership)
    cpus = [
        *_read_values(_read_cpus_v2, _list_levels(root, paths.get("", "/"))),
        *_read_values(_read_cpus_v2, _list_levels(root / "unified", paths.get("", "/"))),
        *_read_values(_read_cpus_v1, _list_levels(root / "cpu", paths.get("cpu", "/"))),
        *_read_values(_read_cpus_v1, _list_levels(root / "cpu,cpuacct", paths.get("cpu", "/"))),
    ]
    memory = [
        *_read_values(_read_memory_v2, _list_levels(root, paths.get("", "/"))),
        *_read_values(_read_memory_v2, _list_levels(root / "unified", paths.get("", "/"))),
        *_read_values(_read_memory_v1, _list_levels(root / "memory", paths.get("memory", "/"))),
    ]
    tightest = min(memory, default=None)
    if tightest is None:
        return Limits(cpus=min(cpus, default=None))
    return Limits(cpus=min(cpus, default=None), memory=tightest[0], memory_used=tightest[1])


def _read_membership(path: Path) -> dict[str, str]:
    """`"4:cpu,cpuacct:/job"` -> `{"cpu": "/job", "cpuacct": "/job"}`; the v2 group has the name ""."""
    found: dict[str, str] = {}
    for line in _read(path).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            found.update(dict.fromkeys(parts[1].split(","), parts[2]))
    return found


def _list_levels(mount: Path, group: str) -> Iterator[Path]:
    """The group's directory and all above it; in a container the group's own path may not be mounted."""
    directory = mount / group.strip("/")
    while True:
        yield directory
        if directory == mount or mount not in directory.parents:
            return
        directory = directory.parent


def _read_values(read: Callable[[Path], T | None], directories: Iterator[Path]) -> list[T]:
    return [value for value in map(read, directories) if value is not None]


def _read_cpus_v2(directory: Path) -> float | None:
    quota, _, period = _read(directory / "cpu.max").partition(" ")
    return _divide(quota, period or "100000")


def _read_cpus_v1(directory: Path) -> float | None:
    return _divide(_read(directory / "cpu.cfs_quota_us"), _read(directory / "cpu.cfs_period_us"))


def _divide(quota: str, period: str) -> float | None:
    if not quota.isdigit() or not period.isdigit() or not int(period) or not int(quota):
        return None
    return int(quota) / int(period)


def _read_memory_v2(directory: Path) -> tuple[int, int] | None:
    used = _read_number(directory / "memory.current") - _read_stat(directory, "inactive_file")
    return _parse_limit(_read(directory / "memory.max"), used)


def _read_memory_v1(directory: Path) -> tuple[int, int] | None:
    used = _read_number(directory / "memory.usage_in_bytes") - _read_stat(directory, "total_inactive_file")
    return _parse_limit(_read(directory / "memory.limit_in_bytes"), used)


def _parse_limit(limit: str, used: int) -> tuple[int, int] | None:
    if not limit.isdigit() or int(limit) >= NO_LIMIT:
        return None
    return int(limit), max(0, used)


def _read_stat(directory: Path, key: str) -> int:
    """Cached file pages that the kernel gives back before it kills: they do not count as used."""
    for line in _read(directory / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.isdigit():
            return int(value)
    return 0


def _read_number(path: Path) -> int:
    text = _read(path)
    return int(text) if text.isdigit() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
