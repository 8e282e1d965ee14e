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

from tokenmill.base.errors import ConfigError
from tokenmill.base.hardware.machine import Machine, measure
from tokenmill.settings.automatic import decided_later, excess, measured
from tokenmill.settings.checking import assembled, checked
from tokenmill.settings.environment import from_environment
from tokenmill.settings.names import BARE, KEYS, SPELLING, full_name, unknown
from tokenmill.settings.origin import Given, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tokenmill.settings.schema import JobConfig


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

    def by_user(self, name: str) -> bool:
        """Whether a person set it, by whatever means."""
        return self.origins[name].kind in {"flag", "environment", "file"}

    @contextmanager
    def blamed(self, name: str, *kinds: type[Exception]) -> Iterator[None]:
        """An error of these kinds inside is told with who gave the setting: `job.yaml:2: tokenizer....`."""
        try:
            yield
        except kinds as error:
            if not self.by_user(name) or name in str(error):
                raise
            raise type(error)(f"{self.origins[name]}: {name}: {error}") from error


def resolve(
    file: str | Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    machine: Machine | None = None,
) -> Resolved:
    """Settings from all layers; a flag of None counts as not given."""
    given = _flags(flags or {}, "--{}")
    return _resolved(given, file, os.environ if environ is None else environ, machine)


def from_options(
    config: str | Path | None = None, *, environ: Mapping[str, str] | None = None, **options: Any
) -> Resolved:
    """Settings from keyword arguments: `from_options(inputs="a.jsonl", tokenizer="gpt2", num_proc=8)`.

    Names may be bare or of the form `section={"key": value}`; `config` is a YAML file below them.
    """
    given = _flags(_flattened(options), "{}=")
    return _resolved(given, config, os.environ if environ is None else environ, None)


def _flattened(options: Mapping[str, Any]) -> dict[str, Any]:
    """`{"packing": {"mode": "concat"}}` -> `{"packing.mode": "concat"}`."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": item for key, item in value.items()})
        else:
            flat[name] = value
    return flat


def _flags(flags: Mapping[str, Any], spelling: str) -> list[Given]:
    found: dict[str, Given] = {}
    for name, value in flags.items():
        full = full_name(name)
        place = _spelled(name, spelling)
        if full is None:
            raise unknown(name, place, [*BARE, *KEYS] if "." in name else list(BARE))
        if value is None or value == ():
            continue
        if full == "packing.mode" and isinstance(value, bool):
            # The plain switch `--packing` of training scripts: documents one after another.
            value = "concat" if value else "stream"  # noqa: PLW2901
        if isinstance(value, Path):
            value = str(value)  # noqa: PLW2901
        _refuse_twice(found.get(full), Given(full, value, Origin("flag", place)))
        found[full] = Given(full, value, Origin("flag", place))
    return list(found.values())


def _spelled(name: str, spelling: str) -> str:
    """How the user wrote it: `execution.num_proc` was `--num-proc`, `output.format` was `--format`."""
    if "." in name:
        name = SPELLING.get(name, name.partition(".")[2])
    return spelling.format(name.replace("_", "-") if spelling.startswith("--") else name)


def _refuse_twice(first: Given | None, second: Given) -> None:
    if first is not None and first.value != second.value:
        raise ConfigError(
            f"{second.origin}: {second.name} is {second.value!r} here and {first.value!r} at {first.origin}; "
            "keep one of them"
        )


def _from_file(file: str | Path | None) -> list[Given]:
    if file is None:
        return []
    # Here, since most jobs have no file and YAML is slow to import.
    from tokenmill.settings.yamlfile import read_yaml

    found: dict[str, Given] = {}
    for given in read_yaml(file):
        _refuse_twice(found.get(given.name), given)
        found[given.name] = given
    return list(found.values())


def _resolved(
    flags: Iterable[Given], file: str | Path | None, environ: Mapping[str, str], machine: Machine | None
) -> Resolved:
    machine = machine or measure(environ)
    file = file if file is not None else environ.get("TOKENMILL_CONFIG") or None
    environment, warnings = from_environment(environ)
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    # The weakest layer first: a stronger one writes over it.
    for layer in (_from_file(file), environment, flags):
        for given in layer:
            values[given.name], origins[given.name] = checked(given), given.origin
    warnings += excess(values, origins, machine)
    for name, (value, origin) in measured(machine, values, origins).items():
        if name not in values:
            values[name], origins[name] = value, origin
    config = assembled(values, {name: str(origin) for name, origin in origins.items()})
    return Resolved(config, _all_origins(config, origins, machine), machine, tuple(warnings))


def _all_origins(config: JobConfig, origins: dict[str, Origin], machine: Machine) -> dict[str, Origin]:
    """An origin for every key, in the order of the schema."""
    later = decided_later(machine)
    if "packing.mode" not in origins and config.packing.mode != "stream":
        later["packing.mode"] = Origin("automatic", "a context_length asks for rows")
    return {name: origins.get(name, later.get(name, Origin("default"))) for name in KEYS}
