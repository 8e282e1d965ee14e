"""Who set a value, and the value as it was given: what every layer of settings hands to the resolver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["flag", "environment", "file", "automatic", "default"]


@dataclass(frozen=True)
class Origin:
    """`Origin("file", "job.yaml:4")`, `Origin("automatic", "2 on this host")`."""

    kind: Kind
    place: str = ""

    def __str__(self) -> str:
        if self.kind in {"file", "flag"}:
            return self.place
        return f"{self.kind}: {self.place}" if self.place else self.kind


@dataclass(frozen=True)
class Given:
    """One setting as somebody gave it: `Given("execution.num_proc", "8", Origin("environment", ...))`."""

    name: str
    value: Any
    origin: Origin
