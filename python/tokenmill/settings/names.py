"""Which section a name belongs to, and the nearest known name to a mistyped one.

Users write settings in four ways: `section.key`, the bare key (`num_proc=8`), a word that other tools
use (`tokenizer=`, `output=`), and the performance keys inside the `tokenizer:` section of a YAML file.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tokenmill.base.near import near_words
from tokenmill.errors import ConfigError
from tokenmill.settings.schema import JobConfig
from tokenmill.settings.section import list_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.settings.section import Job, Section, Setting

# How a file of settings ends.
SETTINGS_FILES = (".yaml", ".yml")
SECTIONS: dict[str, type[Section]] = {
    name: each.annotation for name, each in list_settings(JobConfig).items()
}
SETTINGS: dict[str, Setting] = {
    f"{section}.{key}": each
    for section, model in SECTIONS.items()
    for key, each in list_settings(model).items()
}

# The `tokenizer:` section of existing YAML files also carries rows, speed and words.
IN_TOKENIZER = {
    "context_length": "packing.context_length",
    "overlap": "packing.overlap",
    "batch_size": "execution.batch_size",
    "writer_batch_size": "execution.writer_batch_size",
    "num_proc": "execution.num_proc",
    "threads": "execution.threads",
    "keep_in_memory": "execution.keep_in_memory",
    "show_progress": "execution.show_progress",
    "verbose_level": "execution.verbose_level",
}
# What people write who know other tools, where no spelling is near enough to guess.
MEANT = {
    "data": "'inputs' (files) or 'dataset' (data in memory)",
    "files": "'inputs'",
    "texts": "'dataset'",
    "max_length": "'context_length'",
    "seq_length": "'context_length'",
}


@cache
def list_bare_names(job: Job | None = None) -> dict[str, str]:
    """`{"num_proc": "execution.num_proc", ...}`: what a job calls its settings without their section.

    A key that two sections have is bare only for the one spelled that way. Without a job, names are those of
    `prepare`, then those of `train`.
    """
    if job is None:
        return list_bare_names("train") | list_bare_names("prepare")
    mine = {full: each for full, each in SETTINGS.items() if each.only in {None, job}}
    owners: dict[str, list[str]] = {}
    for full in mine:
        owners.setdefault(full.partition(".")[2], []).append(full)
    keys = {key: full[0] for key, full in owners.items() if len(full) == 1}
    words = {full: (each.spelled, *each.also, *each.former) for full, each in mine.items()}
    return keys | {word: full for full, some in words.items() for word in some if word}


def find_full_name(name: str, job: Job | None = None) -> str | None:
    """`"num_proc"` or `"num-proc"` or `"execution.num_proc"` -> `"execution.num_proc"`; None if unknown."""
    name = name.replace("-", "_")
    if name in list_bare_names(job):
        return list_bare_names(job)[name]
    section, _, key = name.partition(".")
    if section == "tokenizer" and key in IN_TOKENIZER:
        return IN_TOKENIZER[key]
    return name if name in SETTINGS else None


def suggest(name: str, known: Iterable[str]) -> str:
    """`" Did you mean 'batch_size'?"`, or nothing when no known name is near."""
    close = [repr(word) for word in near_words(name, known, most=1, cutoff=0.6)]
    meant = MEANT.get(name) or "".join(close)
    return f" Did you mean {meant}?" if meant else ""


def explain_unknown(name: str, place: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that nobody knows: the nearest one, or the whole list where none is near."""
    help_ = suggest(name, known) or f" Known here: {', '.join(sorted(known))}"
    return ConfigError(f"{place}: unknown key {name!r}.{help_}")
