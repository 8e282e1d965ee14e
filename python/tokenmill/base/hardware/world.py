"""The ranks of a training job, as launchers report them: torchrun, accelerate, Slurm, MPI."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
LOCAL_WORLD_SIZE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
)


def find_rank(environ: Mapping[str, str] = os.environ) -> int | None:
    """This process's rank, or None outside a launcher."""
    return next((int(environ[name]) for name in RANK if environ.get(name, "").isdecimal()), None)


def find_local_world_size(environ: Mapping[str, str] = os.environ) -> tuple[int, str | None]:
    """How many ranks share this host, and the variable that says so: `(8, "LOCAL_WORLD_SIZE")`."""
    for name in LOCAL_WORLD_SIZE:
        size = environ.get(name, "")
        if size.isdecimal() and int(size):
            return int(size), name
    # Slurm writes "4(x2),3" for two nodes of four tasks and one of three. Outside srun (no SLURM_PROCID)
    # the variable describes the allocation, not processes that run.
    tasks = re.match(r"\d+", environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if tasks and "SLURM_PROCID" in environ and int(tasks[0]):
        return int(tasks[0]), "SLURM_STEP_TASKS_PER_NODE"
    return 1, None


def speaks(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process reports to the user: rank 0, or no rank at all."""
    return not find_rank(environ)
