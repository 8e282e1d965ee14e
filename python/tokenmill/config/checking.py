"""Each given value against its field, and all together against the schema; errors in plain words."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import TypeAdapter, ValidationError

from tokenmill.config.names import SECTIONS
from tokenmill.config.schema import JobConfig
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.config.origin import Given

EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "whole": "a whole number",
    "size": "a size in bytes, such as 512MiB or 2GB",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
}


def checked(given: Given) -> Any:
    """The value as the schema's type, or a ConfigError that names key, place and fix."""
    adapter = _adapter(given.name)
    try:
        if given.origin.kind == "file":
            # YAML has its own types, so a file is read strictly: "8" in quotes is text, not a number.
            return adapter.validate_json(json.dumps(given.value, default=str), strict=True)
        return adapter.validate_python(given.value)
    except ValidationError as error:
        raise ConfigError(_refusal(given, error)) from None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    section, _, key = name.partition(".")
    field = SECTIONS[section].model_fields[key]
    return TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]


def _refusal(given: Given, error: ValidationError) -> str:
    """`job.yaml:5: execution.batch_size: expected a whole number, found 'many'. ...`."""
    problems = error.errors(include_url=False)
    expected = " or ".join(dict.fromkeys(_expected(dict(problem)) for problem in problems))
    items = [part + 1 for part in problems[0]["loc"] if isinstance(part, int)]
    expected += f" as item {items[0]}" if items else ""
    section, _, key = given.name.partition(".")
    default = SECTIONS[section].model_fields[key].default
    shown = json.dumps(default) if not isinstance(default, tuple) else "[]"
    fix = "leave it out for the automatic value" if default is None else f"leave it out for {shown}"
    return f"{given.origin}: {given.name}: expected {expected}, found {given.value!r}. Correct it, or {fix}"


def _expected(problem: Mapping[str, Any]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "greater_than":
        return f"a number above {context['gt']}"
    if kind == "greater_than_equal":
        return f"a number of at least {context['ge']}"
    if kind == "literal_error":
        return f"one of {context['expected']}"
    return EXPECTED.get(kind, str(problem["msg"]))


def assembled(values: Mapping[str, Any], places: Mapping[str, str]) -> JobConfig:
    """One config of all values; a contradiction between two of them names the place of the culprit."""
    nested: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        nested.setdefault(section, {})[key] = value
    try:
        return JobConfig.model_validate(nested)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join([str(part) for part in problem["loc"]] + [problem.get("ctx", {}).get("key", "")])
        name = name.strip(".")
        where = f"{places[name]}: " if name in places else ""
        raise ConfigError(f"{where}{name}: {problem['msg']}") from None
