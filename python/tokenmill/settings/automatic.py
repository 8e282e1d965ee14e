"""Values that nobody set, from what this machine has; and warnings where somebody asked for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.settings.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.base.hardware.machine import Machine

GB = 1000**3


def cap_threads(threads: int, reason: str, num_proc: int | None, told: object) -> tuple[int, Origin]:
    """Threads that nobody set: no more than the `num_proc` that somebody did, whichever engine runs."""
    if num_proc is not None and num_proc < threads:
        return num_proc, Origin("automatic", f"as many as num_proc ({told}), of {reason}")
    return threads, Origin("automatic", reason)


def measured(
    machine: Machine, values: Mapping[str, Any], origins: Mapping[str, Origin]
) -> dict[str, tuple[Any, Origin]]:
    """`{"execution.threads": (2, Origin("automatic", "2 on this host")), ...}`, given what was set."""
    memory, asked = machine.memory, "execution.num_proc"
    free = f"{memory.available / GB:.1f} GB {memory.reason}"
    found: dict[str, tuple[Any, Origin]] = {
        "execution.threads": cap_threads(
            machine.cores.usable, machine.cores.reason, values.get(asked), origins.get(asked)
        ),
        "execution.memory_budget": (
            machine.memory_budget,
            Origin("automatic", f"an eighth of {free}, {machine.memory_budget_cap >> 20} MiB at most"),
        ),
    }
    if memory.mode == "in-memory":
        found["execution.keep_in_memory"] = (True, Origin("automatic", f"in-memory mode, {free}"))
    return found


def decided_later(machine: Machine) -> dict[str, Origin]:
    """What only a job can decide, since it depends on the tokenizer or on the documents."""
    return {
        "execution.num_proc": Origin(
            "automatic", f"none for native and fast, {machine.slow_processes} for a slow tokenizer"
        ),
        "execution.batch_size": Origin("automatic", "from the average document size when a job starts"),
        "execution.keep_in_memory": Origin(
            "automatic", f"{machine.memory.mode} mode, by the disk's speed when a job starts"
        ),
        "execution.writer_batch_size": Origin("automatic", "each block as it comes"),
    }


def excess(values: Mapping[str, Any], origins: Mapping[str, Origin], machine: Machine) -> list[str]:
    """A line for each value that was asked for and that this machine does not have."""
    lines = []
    for name in ("execution.threads", "execution.num_proc"):
        asked = values.get(name)
        if asked is not None and asked > machine.cores.usable:
            have = f"{machine.cores.usable} ({machine.cores.reason})"
            lines.append(
                f"{name.partition('.')[2]} {asked} ({origins[name]}) is more than the cores here: {have}"
            )
    budget = values.get("execution.memory_budget")
    if budget is not None and budget > machine.memory.available:
        free = f"{machine.memory.available / GB:.1f} GB {machine.memory.reason}"
        lines.append(
            f"memory_budget {budget / GB:.1f} GB ({origins['execution.memory_budget']}) is more than {free}"
        )
    return lines
