"""How many cores this process may really use, and why: affinity, quota, other ranks of the host."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.hardware import cgroup, world

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the vector code of the core is made of, as Linux names it: lzcnt is "abm" there, NEON "asimd".
KNOWN_FEATURES = ("avx2", "bmi1", "bmi2", "abm", "neon", "asimd")
VECTOR_SETS = ({"avx2", "bmi1", "bmi2", "abm"}, {"neon"}, {"asimd"})


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


def cores(limits: cgroup.Limits | None = None, environ: Mapping[str, str] = os.environ) -> Cores:
    """The cores for this process: `Cores(usable=4, host=64, affinity=32, quota=None, ranks=8, ...)`."""
    limits = cgroup.limits() if limits is None else limits
    host = os.cpu_count() or 1
    affinity = _affinity(host)
    ranks, variable = world.local_world_size(environ)
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


def features(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """What this CPU has and the vector code of the core uses: `("avx2", "bmi1", "bmi2", "abm")`."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ("neon",) if platform.machine() in {"arm64", "aarch64"} else ()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            have = set(value.split())
            return tuple(feature for feature in KNOWN_FEATURES if feature in have)
    return ()


def has_vectors(found: tuple[str, ...]) -> bool:
    """Whether one whole set is there: the core uses all of it or none."""
    return any(needed <= set(found) for needed in VECTOR_SETS)


def _affinity(host: int) -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return host
