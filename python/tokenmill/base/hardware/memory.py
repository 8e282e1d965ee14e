"""How much memory this process may really use, and what follows: the mode and the budget of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tokenmill.base.hardware import cgroup

GB = 1000**3
MIB = 1 << 20
# From here on a corpus of some millions of documents fits beside its tokens; below the second, the disk
# is the safe place. Users know these two figures from their own set-ups.
IN_MEMORY_FROM = 50 * GB
BALANCED_FROM = 20 * GB
MemoryMode = Literal["in-memory", "balanced", "disk"]


@dataclass(frozen=True)
class Memory:
    """`available` is the answer: free memory of the host, or what is left below the container's limit."""

    available: int
    total: int
    limit: int | None
    reason: str

    @property
    def mode(self) -> MemoryMode:
        """Where a job holds what is in flight."""
        return memory_mode(self.available)


def measure_memory(limits: cgroup.Limits | None = None) -> Memory:
    """The memory for this process, in bytes."""
    limits = cgroup.read_limits() if limits is None else limits
    available, total = measure_host_memory()
    reason = "free on this host"
    if limits.memory is not None and limits.memory < total:
        total = limits.memory
        left = max(0, limits.memory - (limits.memory_used or 0))
        if left < available:
            available, reason = left, f"left of the {limits.memory / GB:.1f} GB cgroup limit"
    return Memory(available, total, limits.memory, reason)


def measure_host_memory() -> tuple[int, int]:
    """`(available, total)` bytes of this host: from the kernel's own page, elsewhere from psutil."""
    try:
        pairs = (line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
        sizes = {name: 1024 * int(size) for name, size in pairs}
        return sizes["MemAvailable:"], sizes["MemTotal:"]
    except (OSError, KeyError, ValueError):
        import psutil

        found = psutil.virtual_memory()
        return found.available, found.total


def measure_address_room() -> int | None:
    """Bytes that this process may still map below its `ulimit -v`; None where there is no such limit."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - mapped)


def memory_mode(available: int) -> MemoryMode:
    """`memory_mode(85_300_000_000)` -> `"in-memory"`."""
    if available >= IN_MEMORY_FROM:
        return "in-memory"
    return "balanced" if available >= BALANCED_FROM else "disk"


# More does not make a job faster, since a block is encoded in milliseconds; it only moves the peak.
MOST_IN_FLIGHT = {"in-memory": 512 * MIB, "balanced": 512 * MIB, "disk": 256 * MIB}


def memory_budget(available: int, ranks: int = 1) -> int:
    """Bytes of text and tokens in flight: an eighth of what is free, from 64 MiB to what the mode allows."""
    return max(64 * MIB, min(MOST_IN_FLIGHT[memory_mode(available)], available // 8 // max(1, ranks)))
