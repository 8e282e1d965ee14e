"""Reads `events.jsonl`: when runs started and ended, how long units took, what the machine did."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tokenmill.base.run_files import EVENTS

if TYPE_CHECKING:
    from pathlib import Path

BUCKETS = 60  # points of the throughput curve
STRAGGLER = 3.0  # times the median unit


@dataclass
class EventLog:
    """The events of all runs on one output directory, on one clock that starts with the first."""

    starts: list[dict[str, Any]] = field(default_factory=list)
    units: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    finishes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def restarts(self) -> list[float]:
        """Seconds at which a later run resumed."""
        return [event["seconds_in"] for event in self.starts[1:]]

    def measure_throughput(self) -> list[dict[str, float]]:
        """Bytes and tokens per second over time: each unit's work is spread over the time it took."""
        if not self.units:
            return []
        end = max(unit["seconds_in"] for unit in self.units)
        width = max(end / BUCKETS, 1e-3)
        points = [
            {"seconds": (k + 0.5) * width, "bytes_per_second": 0.0, "tokens_per_second": 0.0}
            for k in range(BUCKETS)
        ]
        for unit in self.units:
            stop, took = unit["seconds_in"], max(unit["seconds"], 1e-6)
            for k in range(max(0, int((stop - took) / width)), min(BUCKETS - 1, int(stop / width)) + 1):
                overlap = min(stop, (k + 1) * width) - max(stop - took, k * width)
                share = max(overlap, 0.0) / took / width
                points[k]["bytes_per_second"] += unit["bytes"] * share
                points[k]["tokens_per_second"] += unit["tokens"] * share
        return points

    def find_stragglers(self) -> set[int]:
        """Units that took more than three times the median."""
        times = sorted(unit["seconds"] for unit in self.units)
        limit = STRAGGLER * times[len(times) // 2] if times else 0.0
        return {unit["unit"] for unit in self.units if unit["seconds"] > limit}


def read_events(root: Path) -> EventLog:
    """The log of a directory; empty where there is none. A last line that a kill cut short is skipped."""
    log = EventLog()
    lists = {"start": log.starts, "unit": log.units, "sample": log.samples, "finish": log.finishes}
    zero: datetime | None = None
    for line in _read_lines(root):
        try:
            event = json.loads(line)
            at = datetime.fromisoformat(event["at"])
        except (ValueError, KeyError, TypeError):
            continue
        zero = zero or at
        event["seconds_in"] = (at - zero).total_seconds()
        lists.get(event.get("event"), []).append(event)
    return log


def _read_lines(root: Path) -> list[str]:
    try:
        return (root / EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
