"""Environment variables and their conflicts, versions, and the optional packages that a job will need."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import TYPE_CHECKING

import tokenmill
from tokenmill.base.console import words
from tokenmill.base.errors import ConfigError, MissingExtraError, TokenmillError
from tokenmill.base.hardware.cache import tables_folder
from tokenmill.insight.doctor.doctor import Check, Status
from tokenmill.settings.environment import PREFIX, VARIABLES
from tokenmill.settings.kinds import FALSE
from tokenmill.settings.resolve import resolve
from tokenmill.sources.stores import check_keeper, is_remote, open_filesystem

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


def run_checks(
    machine: Machine, environ: Mapping[str, str], data: Sequence[str] = (), output: str | None = None
) -> Iterator[Check]:
    """Every check of the set-up around a job."""
    yield from check_variables(machine, environ)
    yield check_kept_tables()
    yield check_versions()
    yield from check_extras(data, output)


def check_variables(machine: Machine, environ: Mapping[str, str]) -> Iterator[Check]:
    """Variables that slow a job down, contradict each other or mean nothing; if none, a line of those set."""
    seen = [
        f"{name}={environ[name]}" for name in sorted(environ) if name in VARIABLES or name.startswith(PREFIX)
    ]
    try:
        warnings = resolve(environ=environ, machine=machine).warnings
    except ConfigError as error:
        yield _check_variable("problem", str(error), "a job would fail at once", "unset it, or correct it")
        return
    troubled = False
    if environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        troubled = True
        yield _check_variable(
            "problem" if machine.cores.usable > 1 else "warning",
            f"TOKENIZERS_PARALLELISM={environ['TOKENIZERS_PARALLELISM']}",
            f"tokenizers use one thread of {machine.cores.usable}",
            "unset TOKENIZERS_PARALLELISM",
        )
    for warning in warnings:
        troubled = True
        yield _check_variable(
            "warning", warning, "the settings are not what they look like", 'eval "$(tokenmill config env)"'
        )
    if not troubled:
        yield _check_variable("ok", ", ".join(seen) or "none set", "automatic values fit this machine", None)


def _check_variable(status: Status, found: str, meaning: str, fix: str | None) -> Check:
    return Check(name="environment", status=status, found=found, meaning=meaning, fix=fix)


def check_kept_tables() -> Check:
    """Whether tables of large vocabularies are kept between processes, and how much space they take."""
    try:
        folder = tables_folder()
    except ConfigError as error:
        return _check_tables("problem", str(error), "no tokenizer can be loaded", "unset it, or correct it")
    if folder is None:
        return _check_tables(
            "ok", "not kept", "every process builds the tables of large vocabularies again", None
        )
    home = next(place for place in (folder, *folder.absolute().parents) if os.path.exists(place))  # noqa: PTH110 - no error where a parent may not be entered
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        return _check_tables(
            "warning",
            f"{folder} cannot be written",
            "every process builds the tables of large vocabularies again, in some 0.3 s",
            "set TOKENMILL_CACHE to a folder that can be written, or TOKENMILL_CACHE_TABLES=off",
        )
    sizes = [path.stat().st_size for path in folder.glob("*.tables")]
    parts = f"{len(sizes)} files, {words.size(sum(sizes))} in {folder}"
    return _check_tables("ok", parts, "large vocabularies load in a few hundredths of a second", None)


def _check_tables(status: Status, found: str, meaning: str, fix: str | None) -> Check:
    return Check(name="kept tables", status=status, found=found, meaning=meaning, fix=fix)


def check_versions() -> Check:
    """The versions that a bug report needs."""
    parts = [f"python {platform.python_version()}", f"tokenmill {tokenmill.__version__}"]
    for package in PACKAGES:
        try:
            parts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return Check(name="versions", status="ok", found=", ".join(parts), meaning="a bug report needs these")


def check_extras(data: Sequence[str], output: str | None = None) -> Iterator[Check]:
    """Packages that these URLs need; a missing one is reported before the job, not during it."""
    places: list[tuple[str, Callable[[str], object]]] = [(url, open_filesystem) for url in data]
    if output is not None:
        places.append((output, check_keeper))
    for place, check in places:
        if not is_remote(place):
            continue
        try:
            check(place)
        except MissingExtraError as error:
            yield _report_unopened(place, error, error.remedy)
        except TokenmillError as error:
            yield _report_unopened(place, error, "use a path, or a URL of a supported kind")


def _report_unopened(place: str, error: TokenmillError, fix: str) -> Check:
    return Check(
        name="extras", status="problem", found=str(error), meaning=f"{place} cannot be opened", fix=fix
    )
