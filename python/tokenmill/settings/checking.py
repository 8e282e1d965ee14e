"""Each given value against its setting, and all together against the schema; errors in plain words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import ConfigError
from tokenmill.settings.kinds import MismatchError, check
from tokenmill.settings.names import SECTIONS
from tokenmill.settings.schema import JobConfig
from tokenmill.settings.section import Setting, SettingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.settings.origin import Given


def checked(given: Given) -> Any:
    """The value as the schema's type, or a ConfigError that names key, place and fix."""
    section, _, key = given.name.partition(".")
    setting = SECTIONS[section].settings[key]
    value, strict = given.value, given.origin.kind == "file"
    if strict:
        # YAML has its own types, so a file is read strictly: "8" in quotes is text, not a number. Those that
        # JSON lacks, such as dates, are the text that stands there.
        value = json.loads(json.dumps(value, default=str))
    try:
        return check(setting.annotation, value, strict=strict)
    except MismatchError as error:
        raise ConfigError(_refusal(given, setting, error)) from None


def _refusal(given: Given, setting: Setting, error: MismatchError) -> str:
    """`job.yaml:5: execution.batch_size: expected a whole number, found 'many'. ...`."""
    default = setting.default
    shown = json.dumps(default) if not isinstance(default, tuple) else "[]"
    fix = "leave it out for the automatic value" if default is None else f"leave it out for {shown}"
    return f"{given.origin}: {given.name}: {error}, found {given.value!r}. Correct it, or {fix}"


def assembled(values: Mapping[str, Any], places: Mapping[str, str]) -> JobConfig:
    """One config of all values; a contradiction between two of them names the place of the culprit."""
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        nested.setdefault(section, {})[key] = value
    try:
        return JobConfig.from_dict(nested)
    except SettingError as error:
        where = f"{places[error.key]}: " if error.key in places else ""
        raise ConfigError(f"{where}{error}") from None
