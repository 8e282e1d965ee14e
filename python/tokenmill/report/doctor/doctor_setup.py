"""Environment variables and their conflicts, versions, and the optional packages that a job will need."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import tokenmill
from tokenmill.base.console import words
from tokenmill.base.hardware.cache import tables_folder
from tokenmill.base.versions import find_version
from tokenmill.errors import ConfigError, MissingExtraError, TokenmillError
from tokenmill.report.doctor.doctor import Check
from tokenmill.settings.environment import PREFIX, VARIABLES
from tokenmill.settings.kinds import FALSE
from tokenmill.settings.resolve import resolve
from tokenmill.sources.stores import check_keeper, is_remote, open_filesystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tokenmill.base.hardware.machine import Machine

PACKAGES = ("numpy", "pyarrow", "tokenizers", "transformers", "datasets", "ray", "torch")
_BUILT_AGAIN = "every process builds the tables of large vocabularies again"


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
        yield Check(
            "environment", "problem", str(error), "a job would fail at once", "unset it, or correct it"
        )
        return
    troubled = False
    if environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        troubled = True
        yield Check(
            "environment",
            "problem" if machine.cores.usable > 1 else "warning",
            f"TOKENIZERS_PARALLELISM={environ['TOKENIZERS_PARALLELISM']}",
            f"tokenizers use one thread of {machine.cores.usable}",
            "unset TOKENIZERS_PARALLELISM",
        )
    for warning in warnings:
        troubled = True
        meaning = "the settings are not what they look like"
        yield Check("environment", "warning", warning, meaning, 'eval "$(tokenmill config env)"')
    if not troubled:
        yield Check("environment", "ok", ", ".join(seen) or "none set", "automatic values fit this machine")


def check_kept_tables() -> Check:
    """Whether tables of large vocabularies are kept between processes, and how much space they take."""
    try:
        folder = tables_folder()
    except ConfigError as error:
        return Check(
            "kept tables", "problem", str(error), "no tokenizer can be loaded", "unset it, or correct it"
        )
    if folder is None:
        return Check("kept tables", "ok", "not kept", _BUILT_AGAIN)
    home = next(place for place in (folder, *folder.absolute().parents) if os.path.exists(place))  # noqa: PTH110 - no error where a parent may not be entered
    if not home.is_dir() or not os.access(home, os.W_OK | os.X_OK):
        fix = "set TOKENMILL_CACHE to a folder that can be written, or TOKENMILL_CACHE_TABLES=off"
        found = f"{folder} cannot be written"
        return Check("kept tables", "warning", found, f"{_BUILT_AGAIN}, in some 0.3 s", fix)
    sizes = [path.stat().st_size for path in folder.glob("*.tables")]
    parts = f"{len(sizes)} files, {words.size(sum(sizes))} in {folder}"
    return Check("kept tables", "ok", parts, "large vocabularies load in a few hundredths of a second")


def check_versions() -> Check:
    """The versions that a bug report needs."""
    parts = [f"python {platform.python_version()}", f"tokenmill {tokenmill.__version__}"]
    parts += [f"{package} {version}" for package in PACKAGES if (version := find_version(package))]
    return Check("versions", "ok", ", ".join(parts), "a bug report needs these")


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
        except TokenmillError as error:
            fix = (
                error.remedy
                if isinstance(error, MissingExtraError)
                else "use a path, or a URL of a supported kind"
            )
            yield Check("extras", "problem", str(error), f"{place} cannot be opened", fix)
