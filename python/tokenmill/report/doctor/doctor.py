"""`tokenmill doctor`: every check in one list, each with what was found, what it means and what fixes it."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tokenmill.base.hardware.machine import Machine, measure
from tokenmill.settings.section import Section
from tokenmill.sources.stores import is_remote

Status = Literal["ok", "warning", "problem"]
ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True)
class Check(Section):
    """One line: ok, warning or problem; what was looked at, what is there, what it means, what fixes it."""

    name: str
    status: Status
    found: str
    meaning: str
    fix: str | None = None


@dataclass(frozen=True, kw_only=True)
class Report(Section):
    """All checks, and the worst status among them."""

    version: Literal[1] = 1
    status: Status
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """1 when there is a problem."""
        return int(self.status == "problem")


def examine(
    tokenizer: str | None = None,
    data: tuple[str, ...] = (),
    output: str | None = None,
    environ: Mapping[str, str] = os.environ,
    machine: Machine | None = None,
) -> Report:
    """Check this machine and, where given, a tokenizer, its data and the place of the output."""
    from tokenmill.report.doctor import doctor_disk, doctor_machine, doctor_setup, doctor_tokenizer

    machine = machine or measure(environ)
    place = Path(output) if output is not None and not is_remote(output) else Path.cwd()
    parts: list[tuple[str, Callable[[], Iterable[Check]]]] = [
        ("tokenizer", lambda: doctor_tokenizer.run_checks(tokenizer, data)),
        ("machine", lambda: doctor_machine.run_checks(machine)),
        ("output", lambda: doctor_disk.run_checks(place, data, given=output is not None)),
        ("set-up", lambda: doctor_setup.run_checks(machine, environ, data, output)),
    ]
    checks = tuple(check for name, part in parts for check in _guard(name, part))
    worst: Status = max((check.status for check in checks), key=ORDER.index, default="ok")
    return Report(status=worst, checks=checks)


def _guard(name: str, part: Callable[[], Iterable[Check]]) -> list[Check]:
    """The checks of one part; one that cannot be made is itself reported as a problem."""
    try:
        return list(part())
    except OSError as error:
        found, fix = f"{type(error).__name__}: {error}", "check the path and its permissions"
        return [Check(name, "problem", found, "this part could not be checked", fix)]
