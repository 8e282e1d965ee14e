"""Environment variables that suit this machine, each with its reason, for `eval "$(tokenmill config env)"`.

Tokenmill itself needs none of them. They make the other programs of the same shell (Hugging Face
tokenizers and datasets, NumPy, PyTorch) use what this machine has, not what its host has. None of them may
pin a thread to a core: every rank of a host would choose the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tokenmill.base.hardware.memory import GB

if TYPE_CHECKING:
    from tokenmill.base.hardware.machine import Machine

Profile = Literal["auto", "server", "workstation", "laptop"]
# Documents encoded and written at once, for machines with much and with little memory.
BATCHES = {"server": (20_000, 100_000), "workstation": (20_000, 100_000), "laptop": (10_000, 50_000)}
SCARCE = (500, 5_000)


@dataclass(frozen=True)
class Export:
    """One variable, its value, and why."""

    name: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"export {self.name}={self.value}  # {self.reason}"


def choose_profile(machine: Machine) -> Profile:
    """The profile that fits: by cores and memory within the limits."""
    if machine.cores.usable >= 32 and machine.memory.total >= 120 * GB:
        return "server"
    return "workstation" if machine.cores.usable >= 16 and machine.memory.total >= 60 * GB else "laptop"


def list_exports(machine: Machine, profile: Profile = "auto") -> list[Export]:
    """The lines for this machine under a profile, in a stable order."""
    kind = choose_profile(machine) if profile == "auto" else profile
    threads, why = _choose_threads(machine, kind)
    batch, writer, amount = _choose_batches(machine, kind)
    return [
        Export("TOKENIZERS_PARALLELISM", "true", "let Rust tokenizers use their threads"),
        Export("RAYON_NUM_THREADS", str(threads), f"Rust threads: {why}"),
        Export("RAYON_RS_NUM_THREADS", str(threads), "the same under the name that some scripts read"),
        Export("OMP_NUM_THREADS", str(threads), f"NumPy and PyTorch threads: {why}"),
        Export("DATASET_NUM_PROC", str(threads), f"worker processes of Python tokenizers: {why}"),
        Export("DATASET_BATCH_SIZE", str(batch), f"documents at once: {amount}"),
        Export("DATASET_WRITER_BATCH_SIZE", str(writer), f"documents per write: {amount}"),
        Export("ARROW_IO_THREADS", str(max(8, threads)), "PyArrow readers wait for disks, not for cores"),
        Export("ARROW_DEFAULT_MEMORY_POOL", "mimalloc", "PyArrow's allocator that returns memory soonest"),
    ]


def _choose_threads(machine: Machine, kind: str) -> tuple[int, str]:
    cores = machine.cores
    if kind == "laptop" and cores.usable > 2:
        return cores.usable - 1, f"{cores.reason}, one left for you"
    return cores.usable, cores.reason


def _choose_batches(machine: Machine, kind: str) -> tuple[int, int, str]:
    free = f"{machine.memory.available / GB:.1f} GB {machine.memory.reason}"
    if machine.memory.available / machine.cores.ranks < 4 * GB:
        return *SCARCE, f"{free} is little"
    return *BATCHES[kind], f"{free}, {kind} profile"
