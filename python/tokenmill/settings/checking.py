"""Each given value against its setting, and all together against the schema; errors in plain words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError
from tokenmill.settings.kinds import MismatchError, check
from tokenmill.settings.names import SECTIONS, SETTINGS
from tokenmill.settings.schema import JobConfig
from tokenmill.settings.section import SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.settings.origin import Given, Origin


def check_given(given: Given) -> Any:
    """The value as the schema's type, or a ConfigError that names key, place and fix."""
    value, strict = given.value, given.origin.kind == "file"
    if strict:
        # YAML has its own types, so a file is read strictly: "8" in quotes is text, not a number. Those that
        # JSON lacks, such as dates, are the text that stands there.
        value = json.loads(json.dumps(value, default=str))
    try:
        return check(SETTINGS[given.name].annotation, value, strict=strict)
    except MismatchError as error:
        raise ConfigError(_explain_refusal(given, error)) from None


def _explain_refusal(given: Given, error: MismatchError) -> str:
    """`job.yaml:5: execution.batch_size: expected a whole number, found 'many'. ...`."""
    default = SETTINGS[given.name].default
    instead = "the automatic value" if default is None else json.dumps(default)
    found = f"{given.origin}: {given.name}: {error}, found {given.value!r}"
    return f"{found}. Correct it, or leave it out to get {instead}"


def assemble(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> JobConfig:
    """One config of values that are checked; a contradiction names the place of the culprit."""
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        nested.setdefault(section, {})[key] = value
    sections: dict[str, Any] = {}
    for section, given in nested.items():
        try:
            sections[section] = SECTIONS[section](**given)
        except SettingError as error:
            name = f"{section}.{error.key}"
            place = f"{origins[name]}: " if name in origins else ""
            raise ConfigError(f"{place}{name}: {error.problem}") from None
    return JobConfig(**sections)
