"""One config from four layers: flag > environment > file > automatic, and the origin of each value.

>>> from tokenmill.settings.resolve import resolve
>>> resolved = resolve(flags={"num_proc": 8}, environ={"DATASET_NUM_PROC": "16"})
>>> resolved.config.execution.num_proc, str(resolved.origins["execution.num_proc"])
(8, '--num-proc')

A setting is written as `section.key`, as its bare key (`num_proc=8`) or by an alias (`tokenizer=`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from typing import Any, Literal, NamedTuple, get_origin

from tokenmill.base.machine import FALSE, GB, MOST_IN_FLIGHT, Machine, measure
from tokenmill.base.words import find_similar
from tokenmill.errors import ConfigError
from tokenmill.settings.schema import SECTIONS, SETTINGS, JobConfig
from tokenmill.settings.section import Job, check, split_rules

SETTINGS_FILES = (".yaml", ".yml")
# The `tokenizer:` section of files from other projects also holds keys of these sections.
IN_TOKENIZER = ("packing", "execution")
# Names of other tools that are not near enough to be guessed.
MEANT = {
    "data": "'inputs' (files) or 'dataset' (data in memory)",
    "files": "'inputs'",
    "texts": "'dataset'",
    "max_length": "'context_length'",
    "seq_length": "'context_length'",
    "min_freq_threshold": "'min_piece_frequency'",
}
PREFIX = "TOKENMILL_"
# Variables of this package that are not settings of a job.
OTHER = {"TOKENMILL_CONFIG", "TOKENMILL_CACHE", "TOKENMILL_CACHE_BYTES", "TOKENMILL_CPU"}
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


@dataclass(frozen=True)
class Origin:
    """Who set a value: `Origin("file", "job.yaml:4")`, `Origin("automatic", "2 on this host")`."""

    kind: Literal["flag", "environment", "file", "automatic", "default"]
    place: str = ""

    def locate(self, name: str) -> str:
        """Return `"--overlap: "` or `"job.yaml:2: packing.overlap: "`, the beginning of an error message."""
        return f"{self}: " if self.kind == "flag" else f"{self}: {name}: "

    def __str__(self) -> str:
        words = (self.place,) if self.kind in {"file", "flag"} else (self.kind, self.place)
        return ": ".join(filter(None, words))


class Given(NamedTuple):
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
    meant = MEANT.get(name) or "".join(close)
    return f" Did you mean {meant}?" if meant else ""


def explain_unknown(name: str, place: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown name, with the nearest name or all of them."""
    help_ = suggest(name, known) or f" Known here: {', '.join(sorted(known))}"
    return ConfigError(f"{place}: unknown key {name!r}.{help_}")


def from_environment(environ: Mapping[str, str], job: Job | None = None) -> tuple[list[Given], list[str]]:
    """Return the settings that the environment gives, one per name, and warnings about the rest."""
    found: dict[str, Given] = {}
    warnings = []
    for variable in sorted(environ):
        text = environ[variable].strip()
        if not variable.startswith(PREFIX) or variable in OTHER or not text:
            continue
        key = variable.removeprefix(PREFIX).lower()
        full = next((full for full in SETTINGS if key.replace("__", "_") == full.replace(".", "_")), None)
        name = full or find_full_name(key, job) or find_full_name(key)
        if name is None:
            near = suggest(variable, [PREFIX + key.upper() for key in list_bare_names()])
            warnings.append(f"{variable} is not the name of a setting, so it is ignored.{near}")
            continue
        is_list = get_origin(split_rules(SETTINGS[name].annotation)[0]) is tuple
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


def _read_value(variable: str, environ: Mapping[str, str]) -> Any:
    """Return the value of a variable of another tool, or None."""
    text = environ.get(variable, "").strip()
    if variable == "TOKENIZERS_PARALLELISM":
        automatic = text.lower() in {"", "true", "1", "yes", "on"}
        return None if automatic else 1 if text.lower() in FALSE else text
    if variable == "OMP_NUM_THREADS":
        # torchrun exports 1 for every rank if the user has not: a guess about OpenMP, not about us.
        by_torchrun = text == "1" and "TORCHELASTIC_RUN_ID" in environ
        # OpenMP also takes a list of nesting levels, "4,2"; the first is the outer one.
        return None if by_torchrun else text.partition(",")[0] or None
    return text or None


@dataclass(frozen=True)
class Resolved:
    """The config, the origin of each `section.key`, warnings, and the machine it is for."""

    config: JobConfig
    origins: dict[str, Origin]
    machine: Machine
    warnings: tuple[str, ...] = field(default=())

    def value(self, name: str) -> Any:
        """Return the value of `section.key`."""
        section, _, key = name.partition(".")
        return getattr(getattr(self.config, section), key)

    def is_set_by_user(self, name: str) -> bool:
        """Return True if a flag, a variable or a file set it."""
        return self.origins[name].kind in {"flag", "environment", "file"}

    @contextmanager
    def name_setting(self, name: str, *kinds: type[Exception]) -> Iterator[None]:
        """Prefix errors of these kinds with the origin of a setting: `job.yaml:2: tokenizer.…`."""
        try:
            yield
        except kinds as error:
            if not self.is_set_by_user(name) or name in str(error):
                raise
            raise type(error)(f"{self.origins[name].locate(name)}{error}") from error


def resolve(
    file: str | PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    machine: Machine | None = None,
    *,
    job: Job | None = None,
    spelling: str = "--{}",
) -> Resolved:
    """Return the settings of all layers; a flag of None counts as not given.

    Raises:
        ConfigError: A setting is unknown, invalid or contradicts another; the message names its origin.
    """
    environ = os.environ if environ is None else environ
    machine = machine or measure(environ)
    environment, warnings = from_environment(environ, job)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    written: list[Given] = []
    if named := file or environ.get("TOKENMILL_CONFIG"):
        # Imported here, since most jobs have no file and YAML is slow to import.
        from tokenmill.settings.yaml_file import read_yaml

        written = read_yaml(named)
    # The weakest layer first: a stronger one replaces its values.
    for layer in (written, environment, _read_flags(flags or {}, spelling, job)):
        for given in _keep_one(layer):
            values[given.name], origins[given.name] = _check_given(given), given.origin
    cores, fact = machine.cores, "is more than the usable cores"
    warnings += [
        f"{name} {values[name]:,} ({origins[name]}) {fact}: {cores.usable} ({cores.reason})"
        for name in ("execution.threads", "execution.num_proc")
        if values.get(name, 0) > cores.usable
    ]
    for name, (value, origin) in _choose_automatic(values, origins, machine).items():
        origins.setdefault(name, origin)
        if value is not None:
            values.setdefault(name, value)
    every = {name: origins.get(name, Origin("default")) for name in SETTINGS}
    return Resolved(_assemble(values, origins), every, machine, tuple(warnings))


def from_options(
    config: str | PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    job: Job = "prepare",
    **options: Any,
) -> Resolved:
    """Return the settings of keyword arguments; `config` is a YAML file below them."""
    return resolve(config, options, environ, job=job, spelling="{}=")


def _choose_automatic(
    given: Mapping[str, Any], origins: Mapping[str, Origin], machine: Machine
) -> dict[str, tuple[Any, Origin]]:
    """Return values from what this machine has; None for what only the job can compute."""
    cores, memory, asked = machine.cores, machine.memory, "execution.num_proc"
    free = f"{memory.available / GB:.1f} GB {memory.reason}"
    reasons = {
        "memory_budget": f"an eighth of {free}, {MOST_IN_FLIGHT >> 20} MiB at most",
        "num_proc": f"{machine.slow_processes} for the python engine, none for others",
        "batch_size": "from the average document size when a job starts",
        "writer_batch_size": "no effect: documents are written as they are encoded",
        "keep_in_memory": "no effect: shards are written as they are made",
    }
    values: dict[str, tuple[Any, Origin]] = {
        f"execution.{key}": (None, Origin("automatic", why)) for key, why in reasons.items()
    }
    values["execution.memory_budget"] = machine.memory_budget, values["execution.memory_budget"][1]
    threads, why = cores.usable, cores.reason
    if given.get(asked, threads) < threads:
        threads, why = given[asked], f"no more than num_proc ({origins[asked]}); {why}"
    values["execution.threads"] = threads, Origin("automatic", why)
    if given.get("packing.context_length") is not None:
        mode = "window" if given.get("packing.overlap") else "concat"
        values["packing.mode"] = (mode, Origin("automatic", "context_length is given"))
    return values


def _check_given(given: Given) -> Any:
    """Return the value as the schema's type, or raise `ConfigError` with key, place and remedy."""
    try:
        return check(SETTINGS[given.name].annotation, given.value, strict=given.origin.kind == "file")
    except ValueError as error:
        found = f"{given.origin.locate(given.name)}{error}, found {given.value!r}"
        raise ConfigError(f"{found}. Correct it, or leave it out to get the default") from None


def _assemble(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> JobConfig:
    """Return the config of valid values, or raise `ConfigError` with the place of a contradiction."""
    sections: dict[str, Any] = {}
    for section, model in SECTIONS.items():
        mine = {name: value for name, value in values.items() if name.partition(".")[0] == section}
        sections[section] = model(**{name.partition(".")[2]: value for name, value in mine.items()})
        if problem := sections[section].find_problem():
            name = f"{section}.{problem[0]}"
            raise ConfigError((origins[name].locate(name) if name in origins else f"{name}: ") + problem[1])
    return JobConfig(**sections)


def _read_flags(flags: Mapping[str, Any], spelling: str, job: Job | None) -> Iterator[Given]:
    for name, value in flags.items():
        place = _spell(name, spelling)
        full = _find_name(name, place, job)
        if value is not None:
            text = os.fspath(value) if isinstance(value, os.PathLike) else value
            yield Given(full, text, Origin("flag", place))


def _find_name(name: str, place: str, job: Job | None) -> str:
    full = find_full_name(name, job) or find_full_name(name)
    if full is None:
        raise explain_unknown(name, place, SETTINGS if "." in name else list_bare_names(job))
    other = SETTINGS[full].only
    if job is not None and other not in {None, job}:
        raise ConfigError(
            f"{place}: {full} is a setting of `tokenmill {other}`; `tokenmill {job}` does not use it"
        )
    return full


def _spell(name: str, spelling: str) -> str:
    """Return a name as the user wrote it: `--num-proc` for `execution.num_proc`, or `num_proc=`."""
    if not spelling.startswith("--"):
        return spelling.format(name)
    if name == "source.inputs":
        return "INPUTS"  # arguments of a command, which have no flag
    flag = SETTINGS[name].flag if name in SETTINGS else ""
    return spelling.format((flag or name.rpartition(".")[2]).replace("_", "-"))


def _keep_one(layer: Iterable[Given]) -> Iterable[Given]:
    """Return each setting of a layer once; raise `ConfigError` if it is given with two values."""
    found: dict[str, Given] = {}
    for given in layer:
        first = found.setdefault(given.name, given)
        if first is not given and first.value != given.value:
            raise ConfigError(
                f"{given.origin}: {given.name} is {given.value!r} here and {first.value!r} at "
                f"{first.origin}; keep one of them"
            )
    return found.values()
