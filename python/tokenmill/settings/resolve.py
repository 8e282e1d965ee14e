"""One config from four layers: flag > environment > file > automatic, and who set each value.

>>> from tokenmill.settings.resolve import resolve
>>> resolved = resolve(flags={"num_proc": 8}, environ={"DATASET_NUM_PROC": "16"})
>>> resolved.config.execution.num_proc, str(resolved.origins["execution.num_proc"])
(8, '--num-proc')
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.hardware.machine import Machine, measure
from tokenmill.errors import ConfigError
from tokenmill.settings.automatic import choose_automatic_values, warn_of_excess
from tokenmill.settings.checking import assemble, check_given
from tokenmill.settings.environment import from_environment
from tokenmill.settings.names import SETTINGS, explain_unknown, find_full_name, list_bare_names
from tokenmill.settings.origin import Given, Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from tokenmill.settings.schema import JobConfig
    from tokenmill.settings.section import Job


@dataclass(frozen=True)
class Resolved:
    """The config, the origin of each `section.key`, warnings for people, and the machine it is for."""

    config: JobConfig
    origins: dict[str, Origin]
    machine: Machine
    warnings: tuple[str, ...] = field(default=())

    def value(self, name: str) -> Any:
        """`value("execution.threads")` -> `2`."""
        section, _, key = name.partition(".")
        return getattr(getattr(self.config, section), key)

    def is_set_by_user(self, name: str) -> bool:
        """Whether a person set it, by whatever means."""
        return self.origins[name].kind in {"flag", "environment", "file"}

    @contextmanager
    def name_setting(self, name: str, *kinds: type[Exception]) -> Iterator[None]:
        """Begin errors of these kinds with who gave the setting: `job.yaml:2: tokenizer....`."""
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
    """Settings from all layers, as a job calls them; a flag of None counts as not given."""
    environ = os.environ if environ is None else environ
    machine = machine or measure(environ)
    environment, warnings = from_environment(environ, job)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    # The weakest layer first: a stronger one writes over it.
    for layer in (
        _from_file(file or environ.get("TOKENMILL_CONFIG")),
        environment,
        _from_flags(flags or {}, spelling, job),
    ):
        for given in layer:
            values[given.name], origins[given.name] = check_given(given), given.origin
    warnings += warn_of_excess(values, origins, machine)
    for name, (value, origin) in choose_automatic_values(values, origins, machine).items():
        origins.setdefault(name, origin)
        if value is not None:
            values.setdefault(name, value)
    every = {name: origins.get(name, Origin("default")) for name in SETTINGS}
    return Resolved(assemble(values, origins), every, machine, tuple(warnings))


def from_options(
    config: str | PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    job: Job = "prepare",
    **options: Any,
) -> Resolved:
    """Settings from keyword arguments: `from_options(inputs="a.jsonl", tokenizer="gpt2", num_proc=8)`.

    Names may be bare or of the form `section={"key": value}`; `config` is a YAML file below them.
    """
    flat: dict[str, Any] = {}
    for name, value in options.items():
        flat.update(
            {f"{name}.{key}": item for key, item in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return resolve(config, flat, environ, job=job, spelling="{}=")


def _from_flags(flags: Mapping[str, Any], spelling: str, job: Job | None) -> list[Given]:
    found: dict[str, Given] = {}
    for name, value in flags.items():
        place = _spell(name, spelling)
        full = _find_name(name, place, job)
        if value is None:
            continue
        if full == "packing.mode" and isinstance(value, bool):
            # The plain switch `--packing` of training scripts: documents one after another.
            value = "concat" if value else "stream"  # noqa: PLW2901
        if isinstance(value, Path):
            value = str(value)  # noqa: PLW2901
        _refuse_twice(found.get(full), Given(full, value, Origin("flag", place)))
        found[full] = Given(full, value, Origin("flag", place))
    return list(found.values())


def _find_name(name: str, place: str, job: Job | None) -> str:
    full = find_full_name(name, job)
    if full is None and (full := find_full_name(name)) is None:
        raise explain_unknown(name, place, SETTINGS if "." in name else list_bare_names(job))
    other = SETTINGS[full].only
    if job is not None and other not in {None, job}:
        raise ConfigError(
            f"{place}: {full} is a setting of `tokenmill {other}`; `tokenmill {job}` does not use it"
        )
    return full


def _spell(name: str, spelling: str) -> str:
    """How the user wrote it: `execution.num_proc` was `--num-proc`, `output.format` was `--format`."""
    if name == "source.inputs" and spelling.startswith("--"):
        return "INPUTS"  # arguments of a command, which have no flag
    if "." in name:
        name = (SETTINGS[name].spelled if name in SETTINGS else "") or name.partition(".")[2]
    return spelling.format(name.replace("_", "-") if spelling.startswith("--") else name)


def _refuse_twice(first: Given | None, second: Given) -> None:
    if first is not None and first.value != second.value:
        raise ConfigError(
            f"{second.origin}: {second.name} is {second.value!r} here and {first.value!r} at {first.origin}; "
            "keep one of them"
        )


def _from_file(file: str | PathLike[str] | None) -> list[Given]:
    if file is None:
        return []
    # Here, since most jobs have no file and YAML is slow to import.
    from tokenmill.settings.yamlfile import read_yaml

    found: dict[str, Given] = {}
    for given in read_yaml(file):
        _refuse_twice(found.get(given.name), given)
        found[given.name] = given
    return list(found.values())
