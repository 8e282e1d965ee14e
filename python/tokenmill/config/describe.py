"""The schema in three forms for people and editors: JSON Schema, a commented YAML file, a table."""

from __future__ import annotations

import json
import re
import types
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from tokenmill.config.fields import parse_size
from tokenmill.config.meanings import meaning
from tokenmill.config.names import IN_TOKENIZER, SECTIONS
from tokenmill.config.schema import FINGERPRINTED, JobConfig

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

HEAD = """\
# Settings of a tokenmill job. Every line that is commented out shows its default; null is automatic.
# Run it with:  tokenmill prepare --config {name}
# See each value and who set it with:  tokenmill config show {name}
"""
EXAMPLES = {
    "source.inputs": '["data/*.jsonl"]',
    "tokenizer.tokenizer_name": "path/to/tokenizer",
    "output.path": "tokens",
}


def json_schema() -> dict[str, Any]:
    """JSON Schema of a settings file, for editors; also knows the keys that `tokenizer:` may carry."""
    schema = JobConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "tokenmill"
    definitions = schema["$defs"]
    for model in SECTIONS.values():
        for name, field in definitions[model.__name__]["properties"].items():
            field["description"] = meaning(model, name)
    for key, full in IN_TOKENIZER.items():
        section, _, name = full.partition(".")
        home = SECTIONS[section].__name__
        definitions["TokenizerConfig"]["properties"][key] = definitions[home]["properties"][name]
    for definition in definitions.values():
        for name, field in definition.get("properties", {}).items():
            definition["properties"][name] = _or_null(field)
    for section, reference in schema["properties"].items():
        schema["properties"][section] = _or_null(reference)
    return schema


def _or_null(field: dict[str, Any]) -> dict[str, Any]:
    """A file may say null for "leave it automatic" anywhere."""
    if {"type": "null"} in field.get("anyOf", []):
        return field
    outer = {key: value for key, value in field.items() if key in {"description", "default", "title"}}
    inner = {key: value for key, value in field.items() if key not in outer}
    return {**outer, "anyOf": [*inner.pop("anyOf", []), *([inner] if inner else []), {"type": "null"}]}


def template(name: str = "tokenmill.yaml") -> str:
    """A settings file with every key, its help and its default; valid as it stands."""
    lines = [HEAD.format(name=name)]
    for section, model in SECTIONS.items():
        lines.append(f"# {_first_line(model.__doc__)}")
        lines.append(f"{section}:")
        for key, field in model.model_fields.items():
            lines.append(f"  # {_first_line(meaning(model, key))} ({kind(field)})")
            full = f"{section}.{key}"
            mark = "" if full in EXAMPLES else "# "
            lines.append(f"  {mark}{key}: {EXAMPLES.get(full) or _shown(field.default)}")
        lines.append("")
    return "\n".join(lines)


def table() -> str:
    """The schema as one Markdown table per section, for docs/configuration.md."""
    parts = []
    for section, model in SECTIONS.items():
        parts += [
            f"### `{section}`",
            "",
            _first_line(model.__doc__),
            "",
            "| key | type | default | meaning |",
        ]
        parts.append("|---|---|---|---|")
        for key, field in model.model_fields.items():
            mark = " \\*" if key in FINGERPRINTED.get(section, ()) else ""
            # A bar inside a cell would end it.
            words = re.sub(r"\s+", " ", meaning(model, key)).replace("|", "\\|")
            parts.append(
                f"| `{key}`{mark} | {kind(field)} | {_default(field, meaning(model, key))} | {words} |"
            )
        parts.append("")
    return "\n".join(parts)


def kind(field: FieldInfo) -> str:
    """The type of a field in words: `"whole number > 0"`, `"fail, skip or replace"`."""
    return _words(field.annotation, [*field.metadata])


def _words(annotation: Any, metadata: list[Any]) -> str:
    if get_origin(annotation) in {Union, types.UnionType}:
        parts = [_words(part, []) for part in get_args(annotation) if part is not type(None)]
        return " or ".join(parts)
    if hasattr(annotation, "__metadata__"):
        return _words(get_args(annotation)[0], list(annotation.__metadata__))
    if get_origin(annotation) is Literal:
        return _listed([str(choice) for choice in get_args(annotation)])
    if get_origin(annotation) is tuple:
        return f"list of {_words(get_args(annotation)[0], [])}"
    if any(getattr(item, "func", None) is parse_size for item in metadata):
        return "size, e.g. 512MiB"
    plain = {int: "whole number", str: "text", bool: "true or false", float: "number"}[annotation]
    return f"{plain}{_bound(metadata)}"


def _bound(metadata: list[Any]) -> str:
    """` > 0` from pydantic's constraint objects, wherever they stand."""
    for item in metadata:
        for constraint in getattr(item, "metadata", [item]):
            if getattr(constraint, "gt", None) is not None:
                return f" > {constraint.gt}"
            if getattr(constraint, "ge", None) is not None:
                return f" ≥ {constraint.ge}"
    return ""


def _listed(choices: list[str]) -> str:
    return ", ".join(choices[:-1]) + f" or {choices[-1]}" if len(choices) > 1 else choices[0]


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"{value >> 30}GiB" if value % (1 << 30) == 0 else f"{value >> 20}MiB"
    if isinstance(value, str):
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _default(field: FieldInfo, text: str) -> str:
    if field.default is not None:
        return f"`{_shown(field.default)}`"
    found = any(word in text for word in ("automatic", "left out"))
    return "automatic" if found else "none"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
