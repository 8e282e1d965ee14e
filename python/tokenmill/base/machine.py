"""Measure the resources of this process: cores, memory and ranks, within affinity, container and launcher."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

GB = 1000**3
MIB = 1 << 20
# Bytes of text and tokens in flight at most. A higher limit does not make a job faster.
MOST_IN_FLIGHT = 512 * MIB
# A document in flight is held as text, as ids (up to 4 bytes for each byte of text) and as written bytes.
BYTES_HELD_PER_TEXT_BYTE = 8
FEWEST_DOCUMENTS, MOST_DOCUMENTS = 16, 20_000
USUAL_DOCUMENT = 4096
# The spellings of "no" in an environment variable.
FALSE = {"false", "0", "no", "off", "f", "n"}
CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
# Names under which launchers (torchrun, accelerate, Slurm, MPI) report ranks.
RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
LOCAL_WORLD_SIZE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
)


def find_rank(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the rank of this process, or None outside a launcher."""
    return next((int(environ[name]) for name in RANK if environ.get(name, "").isdecimal()), None)


def find_local_world_size(environ: Mapping[str, str] = os.environ) -> tuple[int, str | None]:
    """Return how many ranks share this host, and the variable that states it: `(8, "LOCAL_WORLD_SIZE")`."""
    for name in LOCAL_WORLD_SIZE:
        size = environ.get(name, "")
        if size.isdecimal() and int(size):
            return int(size), name
    # Slurm writes "4(x2),3" for two nodes of four tasks and one of three. Outside srun (no SLURM_PROCID)
    # the variable describes the allocation, not running processes.
    tasks = re.match(r"\d+", environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if tasks and "SLURM_PROCID" in environ and int(tasks[0]):
        return int(tasks[0]), "SLURM_STEP_TASKS_PER_NODE"
    return 1, None


@dataclass(frozen=True)
class Limits:
    """The limits of the cgroup, None for no limit; `cpus` may be a fraction."""

    cpus: float | None = None
    memory: int | None = None
    memory_used: int = 0


def read_limits(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> Limits:
    """Return the tightest limits of all levels of cgroup v2 above this process; there are none under v1."""
    deepest = root / _read(membership).partition("0::")[2].strip("/")
    cpus: list[float] = []
    memory: list[tuple[int, int]] = []
    for level in (deepest, *(each for each in deepest.parents if each.is_relative_to(root))):
        quota, _, period = _read(level / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            cpus.append(int(quota) / int(period))
        if (most := _read(level / "memory.max")).isdigit():
            # The kernel drops cached file pages before it kills, so they do not count as used.
            cached = re.search(r"^inactive_file (\d+)$", _read(level / "memory.stat"), re.MULTILINE)
            used = int(_read(level / "memory.current") or 0) - int(cached[1] if cached else 0)
            memory.append((int(most), max(0, used)))
    limit, used = min(memory, default=(None, 0))
    return Limits(min(cpus, default=None), limit, used)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


@dataclass(frozen=True)
class Cores:
    """The `usable` cores of this process, and the figures they follow from."""

    usable: int
    host: int
    affinity: int
    quota: float | None
    ranks: int
    reason: str

    @property
    def together(self) -> int:
        """Return the cores of all ranks of this host, for a rank that works while the others wait."""
        return _within(min(self.affinity, self.host), self.quota)


def measure_cores(limits: Limits | None = None, environ: Mapping[str, str] = os.environ) -> Cores:
    """Return the cores that this process may use, with the reason."""
    limits = read_limits() if limits is None else limits
    host = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else host
    ranks, variable = find_local_world_size(environ)
    reasons = [f"{host} on this host"]
    if affinity < host:
        reasons.append(f"{affinity} by affinity")
    if limits.cpus is not None and limits.cpus < min(affinity, host):
        reasons.append(f"{limits.cpus:g} by cgroup quota")
    if variable:
        reasons.append(f"divided among {ranks} ranks ({variable})")
    usable = max(1, _within(min(affinity, host), limits.cpus) // ranks)
    return Cores(usable, host, affinity, limits.cpus, ranks, ", ".join(reasons))


def _within(count: int, quota: float | None) -> int:
    # A quota of 1.5 keeps two threads busy for part of the time; rounding down would waste a third of it.
    return max(1, int(quota + 0.5)) if quota is not None and quota < count else count


_measure_once = lru_cache(maxsize=1)(measure_cores)


def default_threads() -> int:
    """Return `TOKENMILL_THREADS` if it is set, else the usable cores, measured once."""
    wanted = os.environ.get("TOKENMILL_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else _measure_once().usable


def list_instructions() -> tuple[str, list[str]]:
    """Return the vector instructions in use: `("avx2", ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"])`."""
    from tokenmill import _core

    return _core.cpu()


def open_file_limit() -> int:
    """Return the limit of open files; 2^20 if it is unlimited or unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return 1 << 20
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft > 0 else 1 << 20


@dataclass(frozen=True)
class Memory:
    """The `available` memory: free on the host, or left below the limit of the container."""

    available: int
    reason: str


def measure_memory(limits: Limits) -> Memory:
    """Return the memory that this process may use, in bytes."""
    try:
        free = int(Path("/proc/meminfo").read_text("ascii").partition("MemAvailable:")[2].split()[0]) << 10
    except (OSError, IndexError):  # another system; psutil takes 15 ms to import
        import psutil

        free = psutil.virtual_memory().available
    if limits.memory is not None and (left := max(0, limits.memory - limits.memory_used)) < free:
        return Memory(left, f"left of the {limits.memory / GB:.1f} GB cgroup limit")
    return Memory(free, "free on this host")


def compute_batch_size(average_document_bytes: float | None, budget: int, workers: int = 1) -> int:
    """Return the documents per batch: `compute_batch_size(4096, 512 << 20, 2)` -> `8192`."""
    size = max(1.0, average_document_bytes or USUAL_DOCUMENT)
    fit = budget / max(1, workers) / (size * BYTES_HELD_PER_TEXT_BYTE)
    return int(max(FEWEST_DOCUMENTS, min(MOST_DOCUMENTS, fit)))


@dataclass(frozen=True)
class Machine:
    """Cores and memory, from which the automatic settings follow."""

    cores: Cores
    memory: Memory

    @property
    def slow_processes(self) -> int:
        """Return the worker processes of a Python tokenizer: half the cores."""
        return max(1, self.cores.usable // 2)

    @property
    def memory_budget(self) -> int:
        """Return the bytes of text and tokens in flight: 1/8 of `available` per rank, 64 to 512 MiB."""
        return max(64 * MIB, min(MOST_IN_FLIGHT, self.memory.available // 8 // self.cores.ranks))


def measure(
    environ: Mapping[str, str] = os.environ, cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP
) -> Machine:
    """Return the cores and memory of this process as they are now."""
    limits = read_limits(cgroups, membership)
    return Machine(measure_cores(limits, environ), measure_memory(limits))
