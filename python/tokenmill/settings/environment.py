"""Settings from environment variables: `TOKENMILL_*`, and those that users of other tools already export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_origin

from tokenmill.base.machine import FALSE
from tokenmill.settings.names import Given, Origin, find_full_name, list_bare_names, suggest
from tokenmill.settings.schema import SETTINGS
from tokenmill.settings.section import strip_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.settings.section import Job

PREFIX = "TOKENMILL_"
# Variables of this package that are not settings of a job.
OTHER = {"TOKENMILL_CONFIG", "TOKENMILL_CACHE", "TOKENMILL_CACHE_BYTES", "TOKENMILL_CPU"}
OTHER |= {"TOKENMILL_CACHE_TABLES", "TOKENMILL_TORCH_PYTHON"}
# The first one that is set wins; a disagreement is a warning.
VARIABLES = {
    "DATASET_NUM_PROC": "execution.num_proc",
    "DATASET_BATCH_SIZE": "execution.batch_size",
    "DATASET_WRITER_BATCH_SIZE": "execution.writer_batch_size",
    "TOKENIZERS_PARALLELISM": "execution.threads",
    "RAYON_NUM_THREADS": "execution.threads",
    "RAYON_RS_NUM_THREADS": "execution.threads",
    "OMP_NUM_THREADS": "execution.threads",
}


def from_environment(environ: Mapping[str, str], job: Job | None = None) -> tuple[list[Given], list[str]]:
    """Return the settings that the environment gives, one per name, and warnings about the rest."""
    found: dict[str, Given] = {}
    warnings = []
    for variable in sorted(environ):
        text = environ[variable].strip()
        if not variable.startswith(PREFIX) or variable in OTHER or not text:
            continue
        name = _find_setting(variable, job)
        if name is None:
            near = suggest(variable, [PREFIX + key.upper() for key in list_bare_names()])
            warnings.append(f"{variable} is not the name of a setting, so it is ignored.{near}")
            continue
        is_list = get_origin(strip_rules(SETTINGS[name].annotation)) is tuple
        value = [part.strip() for part in text.split(",")] if is_list else text
        found[name] = Given(name, value, Origin("environment", f"{variable}={text}"))
    for variable, name in VARIABLES.items():
        value = _read_value(variable, environ)
        if value is None:
            continue
        given = Given(name, value, Origin("environment", f"{variable}={environ[variable].strip()}"))
        first = found.setdefault(name, given)
        if str(first.value) != str(value):
            wins = first.origin.place.partition("=")[0]
            both = f"{first.origin.place} and {variable} disagree about {name}"
            warnings.append(f"{both}; {wins} wins. Unset one of them: unset {variable}")
    return list(found.values()), warnings


def _find_setting(variable: str, job: Job | None) -> str | None:
    """Return `"output.format"` for `"TOKENMILL_OUTPUT_FORMAT"`, or None."""
    key = variable.removeprefix(PREFIX).lower()
    full = next((full for full in SETTINGS if key in {full.replace(".", "_"), full.replace(".", "__")}), None)
    return full or find_full_name(key, job) or find_full_name(key)


def _read_value(variable: str, environ: Mapping[str, str]) -> Any:
    """Return the value that a variable of another tool asks for, or None."""
    text = environ.get(variable, "").strip()
    if variable == "TOKENIZERS_PARALLELISM":
        # `true` asks for what is automatic anyway. Any other word is left for the resolver to refuse.
        return (
            1
            if text.lower() in FALSE
            else None
            if text.lower() in {"true", "1", "yes", "on"}
            else text or None
        )
    if variable == "OMP_NUM_THREADS":
        # torchrun exports 1 for every rank if the user has not: a guess about OpenMP, not about us.
        by_torchrun = text == "1" and "TORCHELASTIC_RUN_ID" in environ
        # OpenMP also takes a list of nesting levels, "4,2"; the first is the outer one.
        return None if by_torchrun else text.partition(",")[0] or None
    return text or None
