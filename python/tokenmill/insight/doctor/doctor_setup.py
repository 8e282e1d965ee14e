"""Environment variables and their conflicts, versions, and the optional packages that a job will need."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING

import tokenmill
from tokenmill.base.errors import ConfigError
from tokenmill.insight.doctor.doctor import Check, Status
from tokenmill.settings.environment import PREFIX, VARIABLES
from tokenmill.settings.kinds import FALSE
from tokenmill.settings.resolve import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tokenmill.base.hardware.machine import Machine

PACKAGES = (
    "numpy",
    "pyarrow",
    "tokenizers",
    "transformers",
    "datasets",
    "ray",
    "torch",
)
OLDEST_PYTHON = (3, 11)
# How a path or URL begins -> the packages that open it, and the extra that brings them.
NEEDED = {
    "s3://": (("s3fs",), "s3"),
    "hf://": (("huggingface_hub",), "hf"),
    "gs://": (("gcsfs",), None),
    "abfs://": (("adlfs",), None),
}


def checks(
    machine: Machine, environ: Mapping[str, str], places: Sequence[str | None] = ()
) -> Iterator[Check]:
    """Every check of the set-up around a job."""
    yield from variables(machine, environ)
    yield versions()
    yield from extras([place for place in places if place])


def variables(machine: Machine, environ: Mapping[str, str]) -> Iterator[Check]:
    """Variables that slow a job down, contradict each other or mean nothing; else one line of those set."""
    seen = [
        f"{name}={environ[name]}" for name in sorted(environ) if name in VARIABLES or name.startswith(PREFIX)
    ]
    try:
        warnings = resolve(environ=environ, machine=machine).warnings
    except ConfigError as error:
        yield _variable("problem", str(error), "a job would stop at once", "unset it, or correct it")
        return
    troubled = False
    if environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        troubled = True
        yield _variable(
            "problem" if machine.cores.usable > 1 else "warning",
            f"TOKENIZERS_PARALLELISM={environ['TOKENIZERS_PARALLELISM']}",
            f"tokenizers are held to one thread of {machine.cores.usable}",
            "unset TOKENIZERS_PARALLELISM",
        )
    for warning in warnings:
        troubled = True
        yield _variable(
            "warning", warning, "the settings are not what they look like", 'eval "$(tokenmill env)"'
        )
    if not troubled:
        yield _variable("ok", ", ".join(seen) or "none set", "automatic values fit this machine", None)


def _variable(status: Status, found: str, meaning: str, fix: str | None) -> Check:
    return Check(name="environment", status=status, found=found, meaning=meaning, fix=fix)


def versions() -> Check:
    """The versions that a bug report needs, and whether Python is new enough."""
    told = [f"python {platform.python_version()}", f"tokenmill {tokenmill.__version__}"]
    for package in PACKAGES:
        try:
            told.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    old = sys.version_info < OLDEST_PYTHON
    return Check(
        name="versions",
        status="problem" if old else "ok",
        found=", ".join(told),
        meaning="this Python is too old" if old else "all new enough",
        fix="install Python 3.11 or newer" if old else None,
    )


def extras(places: Sequence[str], find: Callable[[str], object | None] = find_spec) -> Iterator[Check]:
    """Optional packages that the given paths need; a missing one is a problem before the job, not in it."""
    for prefix, (packages, extra) in NEEDED.items():
        for place in places:
            missing = [package for package in packages if place.startswith(prefix) and find(package) is None]
            if missing:
                command = f"'tokenmill[{extra}]'" if extra else " ".join(missing)
                yield Check(
                    name="extras",
                    status="problem",
                    found=f"{', '.join(missing)} is not installed",
                    meaning=f"{place} cannot be opened",
                    fix=f"pip install {command}",
                )
