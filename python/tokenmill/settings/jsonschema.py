"""Sections as JSON Schema: a settings file for editors, and what `--json` prints for its readers."""

from __future__ import annotations

import inspect
import types
from dataclasses import MISSING
from typing import Any, Literal, Union, get_args, get_origin

from tokenmill.settings.kinds import Limit, Read, find_rules, strip_rules
from tokenmill.settings.names import IN_TOKENIZER, SECTIONS
from tokenmill.settings.schema import JobConfig
from tokenmill.settings.section import Section, list_settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}
_LIMITS = {">": "exclusiveMinimum", "≥": "minimum"}


def make_settings_schema() -> dict[str, Any]:
    """The schema of a settings file: null is "automatic" anywhere, and `tokenizer:` may carry more keys."""
    schema = make_schema(JobConfig) | {"title": "tokenmill"}
    definitions = schema["$defs"]
    for key, full in IN_TOKENIZER.items():
        section, _, name = full.partition(".")
        home = definitions[SECTIONS[section].__name__]["properties"]
        definitions["TokenizerConfig"]["properties"][key] = home[name]
    for each in (schema, *definitions.values()):
        each["properties"] = {name: _allow_null(field) for name, field in each["properties"].items()}
    return schema


def make_schema(model: type[Section]) -> dict[str, Any]:
    """The schema of a section, with those inside it under `$defs`."""
    definitions: dict[str, Any] = {}
    body = _describe_object(model, definitions)
    return {"$schema": DIALECT, **body, "$defs": definitions}


def _allow_null(field: dict[str, Any]) -> dict[str, Any]:
    if {"type": "null"} in field.get("anyOf", []):
        return field
    outer = {key: value for key, value in field.items() if key in {"description", "default"}}
    inner = {key: value for key, value in field.items() if key not in outer}
    return {**outer, "anyOf": [*inner.pop("anyOf", []), *([inner] if inner else []), {"type": "null"}]}


def _describe_object(model: type[Section], definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for key, setting in list_settings(model).items():
        words = {"description": setting.meaning} if setting.meaning else {}
        properties[key] = words | _describe_kind(setting.annotation, definitions)
        if setting.default is MISSING:
            required.append(key)
        elif not isinstance(setting.default, Section):
            properties[key]["default"] = setting.default
    return {
        "title": model.__name__,
        "description": inspect.getdoc(model),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _describe_kind(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if every := find_rules(annotation):
        found = _describe_kind(strip_rules(annotation), definitions)
        found |= {_LIMITS[rule.sign]: rule.least for rule in every if isinstance(rule, Limit)}
        texts = [rule.text for rule in every if isinstance(rule, Read) and rule.text is not None]
        return (
            {"anyOf": [found, *({"type": "string", "pattern": text} for text in texts)]} if texts else found
        )
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [_describe_kind(part, definitions) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is tuple:
        return {"type": "array", "items": _describe_kind(parts[0], definitions)}
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if annotation.__name__ not in definitions:
        definitions[annotation.__name__] = _describe_object(annotation, definitions)
    return {"$ref": f"#/$defs/{annotation.__name__}"}
