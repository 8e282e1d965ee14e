"""Who this process is in its launch, and whether it leads: read from the launcher's variables."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.hardware import world
from tokenmill.pipeline.executors.choose import find_executor
from tokenmill.settings.resolve import cap_threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.settings.resolve import Resolved

# What names one launch, so that the failure of an earlier one is not mistaken for a failure of this one.
_LAUNCH = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",), ("TORCHELASTIC_RUN_ID",))
_WORLD_SIZE = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Launch:
    """`rank` is None where no launcher says one; then whoever takes the lock leads."""

    rank: int | None
    decides: str
    """The variable that says which rank leads, or `lock`."""
    name: str
    """One name for all ranks of this launch, or the empty string where the launcher gives none."""

    @property
    def leads(self) -> bool:
        """True for the one that prepares as long as it lives."""
        return self.rank == 0

    @property
    def label(self) -> str:
        """`[Rank 1] `, in front of every line of a rank."""
        return "" if self.rank is None else f"[Rank {self.rank}] "


def find_launch(environ: Mapping[str, str] = os.environ, *, shared_filesystem: bool = True) -> Launch:
    """The launch of this process. Without a shared file system, ranks are counted per host."""
    names = world.RANK + world.LOCAL_RANK if shared_filesystem else world.LOCAL_RANK
    for name in names:
        value = environ.get(name, "")
        if value.isdecimal():
            return Launch(int(value), name, _find_launch_name(environ))
    return Launch(None, "lock", _find_launch_name(environ))


def is_alone(environ: Mapping[str, str] = os.environ) -> bool:
    """True unless the launcher says that there are other ranks."""
    sizes = [int(environ[name]) for name in _WORLD_SIZE if environ.get(name, "").isdecimal()]
    rank = world.find_rank(environ)
    return rank is None or (rank == 0 and (not sizes or sizes[0] == 1))


def use_all_cores(resolved: Resolved) -> Resolved:
    """Settings for a job that one rank of a host does while its other ranks wait: all of the host's cores.

    Not where somebody set the threads, where every process does its own share, or on a cluster.
    """
    execution, cores = resolved.config.execution, resolved.machine.cores
    shared = execution.unit_range is not None or not find_executor(execution.executor).in_process
    if shared or cores.together <= cores.usable or resolved.is_set_by_user("execution.threads"):
        return resolved
    reason = f"all {cores.together} cores: the other ranks of this host wait"
    asked_by = resolved.origins["execution.num_proc"]
    threads, origin = cap_threads(cores.together, reason, execution.num_proc, asked_by)
    mine = replace(execution, threads=threads)
    return replace(
        resolved,
        config=replace(resolved.config, execution=mine),
        origins=resolved.origins | {"execution.threads": origin},
    )


def _find_launch_name(environ: Mapping[str, str]) -> str:
    for names in _LAUNCH:
        values = [environ.get(name, "") for name in names]
        # A static torchrun calls every run "none".
        if all(values) and values != ["none"]:
            return "/".join([*values, environ.get("TORCHELASTIC_RESTART_COUNT", "0")])
    return ""


@cache
def identify_host() -> str:
    """The same for two processes only if they see the same processes and locks."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    return f"{platform.node()}/{boot}"


def read_host_clock() -> float:
    """Seconds on a clock that all processes of this host share and nobody sets; 0 where there is none."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def find_start_time() -> float:
    """When this process certainly existed, on the host's clock; infinity where the system does not say."""
    try:
        # Field 22, in clock ticks; the command in field 2 may hold spaces, so count from its end.
        ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return float("inf")
    # The end of that tick: what failed earlier in it may have failed before us.
    return (int(ticks) + 1) / os.sysconf("SC_CLK_TCK")
