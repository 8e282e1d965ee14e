"""Cores, memory, CPU features, open files and shared memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.console import words
from tokenmill.base.hardware.cpu import list_instructions
from tokenmill.base.platform import open_file_limit
from tokenmill.report.doctor.doctor import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.base.hardware.machine import Machine

GB = 1000**3
FEW_FILES = 1024
SMALL_SHARED_MEMORY = 64 * 1000**2
MODES = {
    "in-memory": "50 GB or more: what is in flight stays in memory",
    "balanced": "20 to 50 GB: memory and disk are both used",
    "disk": "below 20 GB: files are memory-mapped, little is held",
}


def run_checks(machine: Machine, shared_memory: Path = Path("/dev/shm")) -> Iterator[Check]:  # noqa: S108
    """Every check of the machine itself."""
    yield check_cores(machine)
    yield check_memory(machine)
    yield check_cpu_features()
    yield check_open_files(open_file_limit())
    if shared_memory.is_dir():
        yield check_shared_memory(shutil.disk_usage(shared_memory).total)


def check_cores(machine: Machine) -> Check:
    """How many cores a job will use, and what limits them."""
    found = machine.cores
    shown = f"{found.usable} usable ({found.reason})"
    limited = found.usable < found.host and found.quota is not None
    if not limited or found.usable * 4 > found.affinity:
        return Check("cores", "ok", shown, "a job uses this many threads")
    fix = "raise the container's CPU limit (docker run --cpus N)"
    return Check("cores", "warning", shown, "a quota leaves a quarter of the cores or less", fix)


def check_memory(machine: Machine) -> Check:
    """How much memory is free within the limit, and the mode that follows."""
    found = machine.memory
    shown = f"{found.available / GB:.1f} GB available ({found.reason}), {found.mode} mode"
    if found.available < GB // 4:
        fix = "free memory, or raise the container's limit (docker run --memory 2g)"
        return Check("memory", "problem", shown, "a job needs about 250 MB and may be killed", fix)
    if found.available < GB:
        fix = "raise the container's limit (docker run --memory 2g)"
        return Check("memory", "warning", shown, "batches will be small", fix)
    return Check("memory", "ok", shown, MODES[found.mode])


def check_cpu_features(used: tuple[str, list[str]] | None = None) -> Check:
    """The vector instructions that the core uses."""
    name, features = list_instructions() if used is None else used
    if features:
        return Check("cpu features", "ok", ", ".join(features), f"{name} code in use")
    found, meaning = "none that the core can use", "portable code in use, at about half the speed"
    fix = "use a CPU with AVX2 or NEON, give the virtual machine the host's CPU, or unset TOKENMILL_CPU"
    return Check("cpu features", "warning", found, meaning, fix)


def check_open_files(limit: int) -> Check:
    """How many files a process may have open."""
    found = f"limit {limit}" if limit >= 0 else "no limit"
    if 0 <= limit < FEW_FILES:
        return Check(
            "open files", "warning", found, "a dataset of many shards may not open", "ulimit -n 65536"
        )
    return Check("open files", "ok", found, "enough for thousands of shards")


def check_shared_memory(total: int) -> Check:
    """The shared memory that a training job's data loaders use."""
    found = f"{words.size(total)} in /dev/shm"
    if total >= SMALL_SHARED_MEMORY:
        return Check("shared memory", "ok", found, "enough for data loader workers")
    meaning = "data loader workers may die with a bus error"
    return Check("shared memory", "warning", found, meaning, "docker run --shm-size 1g")
