"""Settings from environment variables: ours (`TOKENMILL_*`) and those that users already export.

Several variables may give one setting; the first in `VARIABLES` that is set wins, and the resolver is
told of the others so that it can warn when they disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_origin

from tokenmill.settings.kinds import FALSE, TRUE, strip_rules
from tokenmill.settings.names import SETTINGS, find_full_name, list_bare_names, suggest
from tokenmill.settings.origin import Given, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.settings.section import Job

PREFIX = "TOKENMILL_"
# Variables of ours that are not settings of a job.
OTHER = {
    "TOKENMILL_CONFIG",
    "TOKENMILL_CACHE",
    "TOKENMILL_CACHE_BYTES",
    "TOKENMILL_CACHE_TABLES",
    "TOKENMILL_CPU",
    "TOKENMILL_TORCH_PYTHON",
}

# In order of precedence for the setting they name.
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
    """Settings that the environment gives, one per name, and warnings about the rest."""
    found, warnings = _read_ours(environ, job)
    taken = {given.name: given for given in found}
    for variable, name in VARIABLES.items():
        text = environ.get(variable, "").strip()
        value = _read_value(variable, text, environ)
        if value is None:
            continue
        if name in taken:
            warnings += _warn_of_disagreement(taken[name], variable, value)
            continue
        taken[name] = Given(name, value, Origin("environment", f"{variable}={text}"))
    return list(taken.values()), warnings


def _read_ours(environ: Mapping[str, str], job: Job | None) -> tuple[list[Given], list[str]]:
    """`TOKENMILL_NUM_PROC` and `TOKENMILL_OUTPUT_FORMAT` name `num_proc` and `output.format`."""
    found: dict[str, Given] = {}
    warnings = []
    for variable in sorted(environ):
        text = environ[variable].strip()
        if not variable.startswith(PREFIX) or variable in OTHER or not text:
            continue
        name = find_setting(variable, job)
        if name is None:
            known = [PREFIX + key.upper() for key in list_bare_names()]
            warnings.append(
                f"{variable} is not the name of a setting, so it is ignored.{suggest(variable, known)}"
            )
            continue
        found[name] = Given(name, _read_list(name, text), Origin("environment", f"{variable}={text}"))
    return list(found.values()), warnings


def find_setting(variable: str, job: Job | None = None) -> str | None:
    """`"TOKENMILL_OUTPUT_FORMAT"` -> `"output.format"`; None for a name that means nothing."""
    key = variable.removeprefix(PREFIX).lower()
    for full in SETTINGS:
        if full.replace(".", "_") == key or full.replace(".", "__") == key:
            return full
    return find_full_name(key, job) or find_full_name(key)


def _read_list(name: str, text: str) -> Any:
    """Lists are separated by commas in a variable."""
    is_list = get_origin(strip_rules(SETTINGS[name].annotation)) is tuple
    return [part.strip() for part in text.split(",")] if is_list else text


def _read_value(variable: str, text: str, environ: Mapping[str, str]) -> Any:
    """The value a variable asks for, or None where it asks for nothing."""
    if not text:
        return None
    if variable == "TOKENIZERS_PARALLELISM":
        # `true` only asks for what is automatic anyway. Any other word is left for the resolver to refuse.
        return 1 if text.lower() in FALSE else None if text.lower() in TRUE else text
    if variable == "OMP_NUM_THREADS":
        # torchrun exports 1 for every rank when the user has not: its guess about OpenMP is not about us.
        by_torchrun = text == "1" and "TORCHELASTIC_RUN_ID" in environ
        # OpenMP also takes a list of nesting levels, "4,2"; the first is the outer one.
        return None if by_torchrun else text.partition(",")[0]
    return text


def _warn_of_disagreement(winner: Given, variable: str, value: Any) -> list[str]:
    if str(winner.value) == str(value):
        return []
    both = f"{winner.origin.place} and {variable} disagree about {winner.name}"
    wins = winner.origin.place.partition("=")[0]
    return [f"{both}; {wins} wins. Unset one of them: unset {variable}"]
