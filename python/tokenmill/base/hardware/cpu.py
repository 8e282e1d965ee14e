"""How many cores this process may really use, and why: affinity, quota, other ranks of the host."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tokenmill.base.hardware import cgroup, world
from tokenmill.base.platform import count_cores

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Cores:
    """`usable` is the answer; the others are what it was measured from."""

    usable: int
    host: int
    affinity: int
    quota: float | None
    ranks: int
    reason: str

    @property
    def together(self) -> int:
        """What all ranks of this host have together: for one that works while the others wait."""
        return _within(min(self.affinity, self.host), self.quota)


def measure_cores(limits: cgroup.Limits | None = None, environ: Mapping[str, str] = os.environ) -> Cores:
    """The cores for this process: `Cores(usable=4, host=64, affinity=32, quota=None, ranks=8, ...)`."""
    limits = cgroup.read_limits() if limits is None else limits
    host, affinity = count_cores()
    ranks, variable = world.find_local_world_size(environ)
    within = _within(min(affinity, host), limits.cpus)
    reasons = [f"{host} on this host"]
    if affinity < host:
        reasons.append(f"{affinity} by affinity")
    if limits.cpus is not None and limits.cpus < min(affinity, host):
        reasons.append(f"{limits.cpus:g} by cgroup quota")
    if variable:
        reasons.append(f"divided among {ranks} ranks ({variable})")
    usable = max(1, within // ranks)
    return Cores(usable, host, affinity, limits.cpus, ranks, ", ".join(reasons))


def _within(count: int, quota: float | None) -> int:
    # A quota of 1.5 feeds two threads for part of the time; rounding down would waste a third of it.
    return max(1, int(quota + 0.5)) if quota is not None and quota < count else count


def list_instructions() -> tuple[str, list[str]]:
    """What the core's loops run with: `("avx2", ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"])`."""
    from tokenmill import _core

    return _core.cpu()


# How people write "no" in an environment variable.
FALSE = {"false", "0", "no", "off", "f", "n"}


@lru_cache(maxsize=1)
def usable_cores() -> int:
    """The cores for this process, measured once."""
    return measure_cores().usable


def default_threads() -> int:
    """How many threads to use where the caller does not say; `TOKENMILL_THREADS` comes before the cores."""
    wanted = os.environ.get("TOKENMILL_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else usable_cores()
