"""The names of settings as users write them, the origin of a value, and the nearest name to a mistyped one.

A setting is written as `section.key`, as its bare key (`num_proc=8`) or by an alias (`tokenizer=`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.base.words import find_similar
from tokenmill.errors import ConfigError
from tokenmill.settings.schema import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.settings.section import Job

SETTINGS_FILES = (".yaml", ".yml")
# The `tokenizer:` section of files from other projects also holds keys of these sections.
IN_TOKENIZER = ("packing", "execution")
# Names of other tools that are not near enough to be guessed.
_MEANT = {
    "data": "'inputs' (files) or 'dataset' (data in memory)",
    "files": "'inputs'",
    "texts": "'dataset'",
    "max_length": "'context_length'",
    "seq_length": "'context_length'",
}


@dataclass(frozen=True)
class Origin:
    """Who set a value: `Origin("file", "job.yaml:4")`, `Origin("automatic", "2 on this host")`."""

    kind: Literal["flag", "environment", "file", "automatic", "default"]
    place: str = ""

    def __str__(self) -> str:
        if self.kind in {"file", "flag"}:
            return self.place
        return f"{self.kind}: {self.place}" if self.place else self.kind


@dataclass(frozen=True)
class Given:
    """A setting as it was given: `Given("execution.num_proc", "8", Origin("environment", …))`."""

    name: str
    value: Any
    origin: Origin


@cache
def list_bare_names(job: Job | None = None) -> dict[str, str]:
    """Return `{"num_proc": "execution.num_proc", …}`, the names of a job's settings without their section.

    A key that two sections have is bare only for the section whose flag it is. Without a job, names of
    `prepare` come before those of `train`.
    """
    if job is None:
        return list_bare_names("train") | list_bare_names("prepare")
    mine = {full: each for full, each in SETTINGS.items() if each.only in {None, job}}
    keys = [full.partition(".")[2] for full in mine]
    bare = {key: full for key, full in zip(keys, mine, strict=True) if keys.count(key) == 1}
    return bare | {word: full for full, each in mine.items() for word in (each.flag, *each.aliases) if word}


def find_full_name(name: str, job: Job | None = None) -> str | None:
    """Return `"execution.num_proc"` for `"num_proc"`, `"num-proc"` or itself; None if it is unknown."""
    name = name.replace("-", "_")
    section, _, key = name.partition(".")
    if section == "tokenizer" and key and name not in SETTINGS:
        return next((f"{home}.{key}" for home in IN_TOKENIZER if f"{home}.{key}" in SETTINGS), None)
    return list_bare_names(job).get(name) or (name if name in SETTINGS else None)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'batch_size'?"`, or nothing if no known name is near."""
    close = [repr(word) for word in find_similar(name, known, most=1, cutoff=0.6)]
    meant = _MEANT.get(name) or "".join(close)
    return f" Did you mean {meant}?" if meant else ""


def explain_unknown(name: str, place: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown name, with the nearest name or all of them."""
    help_ = suggest(name, known) or f" Known here: {', '.join(sorted(known))}"
    return ConfigError(f"{place}: unknown key {name!r}.{help_}")
