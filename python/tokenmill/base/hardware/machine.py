"""This machine in one look: what the automatic settings are computed from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenmill.base.hardware import cgroup
from tokenmill.base.hardware.cpu import Cores, measure_cores
from tokenmill.base.hardware.memory import Memory, measure_memory, memory_budget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """Cores and memory within the limits of container, affinity and launcher."""

    cores: Cores
    memory: Memory

    @property
    def slow_processes(self) -> int:
        """Worker processes for a Python tokenizer: half the cores, so that the system keeps the others."""
        return max(1, self.cores.usable // 2)

    @property
    def memory_budget(self) -> int:
        """Bytes of text and tokens in flight."""
        return memory_budget(self.memory.available, self.cores.ranks)


def measure(
    environ: Mapping[str, str] = os.environ,
    cgroup_root: Path = cgroup.ROOT,
    membership: Path = cgroup.MEMBERSHIP,
) -> Machine:
    """Look at this machine now; a few file reads, under a millisecond."""
    limits = cgroup.read_limits(cgroup_root, membership)
    return Machine(measure_cores(limits, environ), measure_memory(limits))
