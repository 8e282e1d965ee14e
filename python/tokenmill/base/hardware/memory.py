"""Measure the memory this process may use, and derive the budget and batch size of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenmill.base.hardware import cgroup

GB = 1000**3
MIB = 1 << 20
# Bytes of text and tokens in flight at most. More does not make a job faster; it only moves the peak.
MOST_IN_FLIGHT = 512 * MIB
# A document in flight is held as text, as ids (up to 4 bytes for each byte of text) and as written bytes.
BYTES_HELD_PER_TEXT_BYTE = 8
FEWEST_DOCUMENTS, MOST_DOCUMENTS = 16, 20_000
USUAL_DOCUMENT = 4096


@dataclass(frozen=True)
class Memory:
    """`available` is the answer: free memory of the host, or what is left below the container's limit."""

    available: int
    total: int
    limit: int | None
    reason: str


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


def memory_budget(available: int, ranks: int = 1) -> int:
    """Return the bytes of text and tokens in flight: an eighth of what is free, from 64 to 512 MiB."""
    return max(64 * MIB, min(MOST_IN_FLIGHT, available // 8 // max(1, ranks)))


def compute_batch_size(average_document_bytes: float | None, budget: int, workers: int = 1) -> int:
    """Return the documents per batch: `compute_batch_size(4096, 512 << 20, 2)` -> `8192`."""
    size = max(1.0, average_document_bytes or USUAL_DOCUMENT)
    fit = budget / max(1, workers) / (size * BYTES_HELD_PER_TEXT_BYTE)
    return int(max(FEWEST_DOCUMENTS, min(MOST_DOCUMENTS, fit)))
