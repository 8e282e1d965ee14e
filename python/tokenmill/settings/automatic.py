"""Values that nobody set, from what this machine has; and warnings where somebody asked for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.base.hardware.memory import GB
from tokenmill.settings.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.base.hardware.machine import Machine


def cap_threads(threads: int, reason: str, num_proc: int | None, origin: object) -> tuple[int, Origin]:
    """Threads that nobody set: no more than the `num_proc` that somebody did, whichever engine runs."""
    if num_proc is not None and num_proc < threads:
        return num_proc, Origin("automatic", f"no more than num_proc ({origin}); {reason}")
    return threads, Origin("automatic", reason)


def choose_automatic_values(
    given: Mapping[str, Any], origins: Mapping[str, Origin], machine: Machine
) -> dict[str, tuple[Any, Origin]]:
    """`{"execution.threads": (2, Origin("automatic", "2 on this host")), ...}`.

    None stands for what only a job can decide, since it depends on the tokenizer or on the documents.
    """
    memory = machine.memory
    free = f"{memory.available / GB:.1f} GB {memory.reason}"
    budget = f"an eighth of {free}, {machine.memory_budget_cap >> 20} MiB at most"
    gathers, why = None, f"{memory.mode} mode, by the disk's speed when a job starts"
    if memory.mode == "in-memory":
        gathers, why = True, f"in-memory mode, {free}"
    processes = f"none for native and fast, {machine.slow_processes} for a slow tokenizer"
    found: dict[str, tuple[Any, str]] = {
        "memory_budget": (machine.memory_budget, budget),
        "keep_in_memory": (gathers, why),
        "num_proc": (None, processes),
        "batch_size": (None, "from the average document size when a job starts"),
        "writer_batch_size": (None, "each block as it comes"),
    }
    values = {f"execution.{key}": (value, Origin("automatic", why)) for key, (value, why) in found.items()}
    asked, cores = "execution.num_proc", machine.cores
    values["execution.threads"] = cap_threads(
        cores.usable, cores.reason, given.get(asked), origins.get(asked)
    )
    if given.get("packing.context_length") is not None:
        mode = "window" if given.get("packing.overlap") else "concat"
        values["packing.mode"] = (mode, Origin("automatic", "a context_length asks for rows"))
    return values


def warn_of_excess(values: Mapping[str, Any], origins: Mapping[str, Origin], machine: Machine) -> list[str]:
    """A line for each value that was asked for and that this machine does not have."""
    lines = []
    for key in ("threads", "num_proc"):
        asked, origin = values.get(f"execution.{key}"), origins.get(f"execution.{key}")
        if asked is not None and asked > machine.cores.usable:
            have = f"{machine.cores.usable} ({machine.cores.reason})"
            lines.append(f"{key} {asked} ({origin}) is more than the usable cores: {have}")
    budget = values.get("execution.memory_budget")
    if budget is not None and budget > machine.memory.available:
        origin = origins["execution.memory_budget"]
        free = f"{machine.memory.available / GB:.1f} GB {machine.memory.reason}"
        lines.append(f"memory_budget {budget / GB:.1f} GB ({origin}) is more than {free}")
    return lines
