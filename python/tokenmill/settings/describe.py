"""The schema in three forms for people and editors: JSON Schema, a commented YAML file, a table."""

from __future__ import annotations

import json
import re
import types
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from tokenmill.settings.fields import Size
from tokenmill.settings.jsonschema import schema_of
from tokenmill.settings.kinds import Above, AtLeast, rules, without_rules
from tokenmill.settings.meanings import meaning
from tokenmill.settings.names import IN_TOKENIZER, SECTIONS
from tokenmill.settings.schema import FINGERPRINTED, JobConfig

if TYPE_CHECKING:
    from tokenmill.settings.section import Setting

HEAD = """\
# Settings of a tokenmill job. Every line that is commented out shows its default; null is automatic.
# Run it with:  tokenmill prepare --config {name}
# See each value and who set it with:  tokenmill config show {name}
"""
_SIGNS = {Above: ">", AtLeast: "≥"}
EXAMPLES = {
    "source.inputs": '["data/*.jsonl"]',
    "tokenizer.tokenizer_name": "path/to/tokenizer",
    "output.path": "tokens",
}


def json_schema() -> dict[str, Any]:
    """JSON Schema of a settings file, for editors; also knows the keys that `tokenizer:` may carry."""
    schema = schema_of(JobConfig) | {"title": "tokenmill"}
    definitions = schema["$defs"]
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
        for key, field in model.settings.items():
            lines.append(f"  # {_first_line(meaning(model, key))} ({kind(field.annotation)})")
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
        for key, field in model.settings.items():
            mark = " \\*" if key in FINGERPRINTED.get(section, ()) else ""
            # A bar inside a cell would end it.
            words = re.sub(r"\s+", " ", meaning(model, key)).replace("|", "\\|")
            default = _default(field, meaning(model, key))
            parts.append(f"| `{key}`{mark} | {kind(field.annotation)} | {default} | {words} |")
        parts.append("")
    return "\n".join(parts)


def kind(annotation: Any) -> str:
    """A type in words: `"whole number > 0"`, `"fail, skip or replace"`."""
    if annotation == Size:
        return "size, e.g. 512MiB"
    plain, parts = without_rules(annotation), get_args(without_rules(annotation))
    if get_origin(plain) in {Union, types.UnionType}:
        return " or ".join(kind(part) for part in parts if part is not types.NoneType)
    if get_origin(plain) is Literal:
        return _listed([str(choice) for choice in parts])
    if get_origin(plain) is tuple:
        return f"list of {kind(parts[0])}"
    word = {int: "whole number", str: "text", bool: "true or false", float: "number"}[plain]
    return word + "".join(f" {_SIGNS[type(rule)]} {rule.least}" for rule in rules(annotation))


def _listed(choices: list[str]) -> str:
    return ", ".join(choices[:-1]) + f" or {choices[-1]}" if len(choices) > 1 else choices[0]


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"{value >> 30}GiB" if value % (1 << 30) == 0 else f"{value >> 20}MiB"
    if isinstance(value, str):
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _default(field: Setting, text: str) -> str:
    if field.default is not None:
        return f"`{_shown(field.default)}`"
    found = any(word in text for word in ("automatic", "left out"))
    return "automatic" if found else "none"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
