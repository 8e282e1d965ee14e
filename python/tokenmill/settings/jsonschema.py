"""Sections as JSON Schema, for editors and for readers of what we print."""

from __future__ import annotations

import inspect
import types
from typing import Any, Literal, Union, get_args, get_origin

from tokenmill.settings.kinds import Above, AtLeast, Read, rules, without_rules
from tokenmill.settings.meanings import meaning
from tokenmill.settings.section import REQUIRED, Section

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {int: "integer", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}


def schema_of(model: type[Section]) -> dict[str, Any]:
    """The schema of a section, with those inside of it under `$defs`."""
    definitions: dict[str, Any] = {}
    body = _object(model, definitions)
    return {"$schema": DIALECT, **body, "$defs": definitions}


def _object(model: type[Section], definitions: dict[str, Any]) -> dict[str, Any]:
    properties, required = {}, []
    for key, setting in model.settings.items():
        words = meaning(model, key)
        properties[key] = ({"description": words} if words else {}) | _kind(setting.annotation, definitions)
        if setting.default is REQUIRED:
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


def _kind(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if every := rules(annotation):
        return _ruled(_kind(without_rules(annotation), definitions), every)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [_kind(part, definitions) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is tuple:
        return {"type": "array", "items": _kind(parts[0], definitions)}
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if annotation.__name__ not in definitions:
        definitions[annotation.__name__] = _object(annotation, definitions)
    return {"$ref": f"#/$defs/{annotation.__name__}"}


def _ruled(found: dict[str, Any], every: tuple[Any, ...]) -> dict[str, Any]:
    for rule in every:
        if isinstance(rule, Above):
            found["exclusiveMinimum"] = rule.least
        elif isinstance(rule, AtLeast):
            found["minimum"] = rule.least
    texts = [rule.text for rule in every if isinstance(rule, Read) and rule.text is not None]
    others = [{"type": "string", "pattern": text} for text in texts]
    return {"anyOf": [found, *others]} if others else found
