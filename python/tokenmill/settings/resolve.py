"""One config from four layers: flag > environment > file > automatic, and the origin of each value.

>>> from tokenmill.settings.resolve import resolve
>>> resolved = resolve(flags={"num_proc": 8}, environ={"DATASET_NUM_PROC": "16"})
>>> resolved.config.execution.num_proc, str(resolved.origins["execution.num_proc"])
(8, '--num-proc')
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tokenmill.base.machine import GB, MOST_IN_FLIGHT, Machine, measure
from tokenmill.errors import ConfigError
from tokenmill.settings.environment import from_environment
from tokenmill.settings.names import Given, Origin, explain_unknown, find_full_name, list_bare_names
from tokenmill.settings.schema import SECTIONS, SETTINGS, JobConfig
from tokenmill.settings.section import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from os import PathLike

    from tokenmill.settings.section import Job


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
            raise type(error)(f"{self.origins[name]}: {name}: {error}") from error


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
    # The weakest layer first: a stronger one replaces its values.
    for layer in (
        _from_file(file or environ.get("TOKENMILL_CONFIG")),
        environment,
        _from_flags(flags or {}, spelling, job),
    ):
        for given in layer:
            values[given.name], origins[given.name] = _check_given(given), given.origin
    warnings += _warn_of_excess(values, origins, machine)
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
    """Return the settings of keyword arguments: `from_options(inputs="a.jsonl", tokenizer="gpt2")`.

    A name is bare, or a section: `packing={"mode": "pad"}`. `config` is a YAML file below them.
    """
    flat: dict[str, Any] = {}
    for name, value in options.items():
        parts = {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else None
        flat.update({name: value} if parts is None else parts)
    return resolve(config, flat, environ, job=job, spelling="{}=")


def cap_threads(threads: int, reason: str, num_proc: int | None, origin: object) -> tuple[int, Origin]:
    """Return automatic threads, at most the `num_proc` that a user set, and their origin."""
    if num_proc is not None and num_proc < threads:
        return num_proc, Origin("automatic", f"no more than num_proc ({origin}); {reason}")
    return threads, Origin("automatic", reason)


def _choose_automatic(
    given: Mapping[str, Any], origins: Mapping[str, Origin], machine: Machine
) -> dict[str, tuple[Any, Origin]]:
    """Return values from what this machine has; None for what only the job can compute."""
    free = f"{machine.memory.available / GB:.1f} GB {machine.memory.reason}"
    found: dict[str, tuple[Any, str]] = {
        "memory_budget": (
            machine.memory_budget,
            f"an eighth of {free}, {MOST_IN_FLIGHT >> 20} MiB at most",
        ),
        "num_proc": (None, f"{machine.slow_processes} for the python engine, none for others"),
        "batch_size": (None, "from the average document size when a job starts"),
        "writer_batch_size": (None, "no effect: documents are written as they are encoded"),
        "keep_in_memory": (None, "no effect: shards are written as they are made"),
    }
    values = {f"execution.{key}": (value, Origin("automatic", why)) for key, (value, why) in found.items()}
    asked, cores = "execution.num_proc", machine.cores
    values["execution.threads"] = cap_threads(
        cores.usable, cores.reason, given.get(asked), origins.get(asked)
    )
    if given.get("packing.context_length") is not None:
        mode = "window" if given.get("packing.overlap") else "concat"
        values["packing.mode"] = (mode, Origin("automatic", "a context_length asks for rows"))
    return values


def _warn_of_excess(values: Mapping[str, Any], origins: Mapping[str, Origin], machine: Machine) -> list[str]:
    """Return a line for each requested value that this machine does not have."""
    lines = []
    for key in ("threads", "num_proc"):
        asked, origin = values.get(f"execution.{key}"), origins.get(f"execution.{key}")
        if asked is not None and asked > machine.cores.usable:
            have = f"{machine.cores.usable} ({machine.cores.reason})"
            lines.append(f"{key} {asked} ({origin}) is more than the usable cores: {have}")
    budget = values.get("execution.memory_budget")
    if budget is not None and budget > machine.memory.available:
        origin = origins["execution.memory_budget"]
        free = f"{machine.memory.available / GB:.1f} GB {machine.memory.reason}"
        lines.append(f"memory_budget {budget / GB:.1f} GB ({origin}) is more than {free}")
    return lines


def _check_given(given: Given) -> Any:
    """Return the value as the schema's type, or raise `ConfigError` with key, place and remedy."""
    setting = SETTINGS[given.name]
    try:
        return check(setting.annotation, given.value, strict=given.origin.kind == "file")
    except ValueError as error:
        instead = "the automatic value" if setting.default is None else json.dumps(setting.default)
        found = f"{given.origin}: {given.name}: {error}, found {given.value!r}"
        raise ConfigError(f"{found}. Correct it, or leave it out to get {instead}") from None


def _assemble(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> JobConfig:
    """Return the config of valid values, or raise `ConfigError` with the place of a contradiction."""
    sections: dict[str, Any] = {}
    for section, model in SECTIONS.items():
        mine = {
            key: value for key in _list_keys(section) if (value := values.get(f"{section}.{key}")) is not None
        }
        sections[section] = model(**mine)
        if problem := sections[section].find_problem():
            name = f"{section}.{problem[0]}"
            place = f"{origins[name]}: " if name in origins else ""
            raise ConfigError(f"{place}{name}: {problem[1]}")
    return JobConfig(**sections)


def _list_keys(section: str) -> list[str]:
    return [name.partition(".")[2] for name in SETTINGS if name.startswith(f"{section}.")]


def _from_flags(flags: Mapping[str, Any], spelling: str, job: Job | None) -> Iterable[Given]:
    found: dict[str, Given] = {}
    for name, value in flags.items():
        place = _spell(name, spelling)
        full = _find_name(name, place, job)
        if full == "packing.mode" and isinstance(value, bool):
            # The plain switch `--packing` of training scripts: documents one after another.
            value = "concat" if value else "stream"  # noqa: PLW2901
        if value is not None:
            text = os.fspath(value) if isinstance(value, os.PathLike) else value
            _keep_one(found, Given(full, text, Origin("flag", place)))
    return found.values()


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


def _from_file(file: str | PathLike[str] | None) -> Iterable[Given]:
    if file is None:
        return []
    # Imported here, since most jobs have no file and YAML is slow to import.
    from tokenmill.settings.yaml_file import read_yaml

    found: dict[str, Given] = {}
    for given in read_yaml(file):
        _keep_one(found, given)
    return found.values()


def _keep_one(found: dict[str, Given], given: Given) -> None:
    """Add a setting; raise `ConfigError` if it was given before with another value."""
    first = found.setdefault(given.name, given)
    if first is not given and first.value != given.value:
        raise ConfigError(
            f"{given.origin}: {given.name} is {given.value!r} here and {first.value!r} at {first.origin}; "
            "keep one of them"
        )
