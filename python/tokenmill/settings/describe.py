"""The schema for people: a commented YAML file, and a table for the docs."""

from __future__ import annotations

import json
import types
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from tokenmill.settings.fields import Size
from tokenmill.settings.kinds import Limit, find_rules, strip_rules
from tokenmill.settings.names import SECTIONS
from tokenmill.settings.section import list_settings

if TYPE_CHECKING:
    from tokenmill.settings.section import Setting

HEAD = """\
# Settings of a tokenmill job. Each commented-out line shows its default; null means automatic.
# Run it with:  tokenmill prepare --config {name}   or:  tokenmill train --config {name}
# See each value and who set it with:  tokenmill config show {name}
"""
EXAMPLES = {
    "source.inputs": '["data/*.jsonl"]',
    "tokenizer.tokenizer_name": "path/to/tokenizer",
    "output.path": "tokens",
}


def make_template(name: str = "tokenmill.yaml") -> str:
    """A settings file with every key, its help and its default; valid as it stands."""
    lines = [HEAD.format(name=name)]
    for section, model in SECTIONS.items():
        lines.append(f"# {_take_first_line(model.__doc__)}")
        lines.append(f"{section}:")
        for key, field in list_settings(model).items():
            lines.append(f"  # {_take_first_line(field.meaning)} ({describe_kind(field.annotation)})")
            full = f"{section}.{key}"
            mark = "" if full in EXAMPLES else "# "
            lines.append(f"  {mark}{key}: {EXAMPLES.get(full) or show_value(field.default)}")
        lines.append("")
    return "\n".join(lines)


def make_table() -> str:
    """The schema as one Markdown table per section, for docs/configuration.md."""
    parts = []
    for section, model in SECTIONS.items():
        parts += [
            f"### `{section}`",
            "",
            _take_first_line(model.__doc__),
            "",
            "| key | type | default | meaning |",
        ]
        parts.append("|---|---|---|---|")
        for key, field in list_settings(model).items():
            mark = " \\*" if field.decides else ""
            words = field.meaning.replace("\n", " ")
            words += f" For `{field.only}` only." if field.only != model.job else ""
            cells = (f"`{key}`{mark}", describe_kind(field.annotation), _describe_default(field), words)
            # A bar inside a cell would end it.
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        parts.append("")
    return "\n".join(parts)


def describe_kind(annotation: Any) -> str:
    """A type in words: `"whole number > 0"`, `"fail, skip or replace"`."""
    if annotation == Size:
        return "size, e.g. 512MiB"
    plain, parts = strip_rules(annotation), get_args(strip_rules(annotation))
    if get_origin(plain) in {Union, types.UnionType}:
        return " or ".join(describe_kind(part) for part in parts if part is not types.NoneType)
    if get_origin(plain) is Literal:
        return _join_choices([str(choice) for choice in parts])
    if get_origin(plain) is tuple:
        return f"list of {describe_kind(parts[0])}"
    word = {int: "whole number", str: "text", bool: "true or false", float: "number"}[plain]
    return word + "".join(
        f" {rule.sign} {rule.least}" for rule in find_rules(annotation) if isinstance(rule, Limit)
    )


def _join_choices(choices: list[str]) -> str:
    return ", ".join(choices[:-1]) + f" or {choices[-1]}" if len(choices) > 1 else choices[0]


def show_value(value: Any) -> str:
    """A value as a settings file has it: `2147483648` -> `"2GiB"`, `("hf",)` -> `'["hf"]'`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"{value >> 30}GiB" if value % (1 << 30) == 0 else f"{value >> 20}MiB"
    if isinstance(value, str):
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _describe_default(field: Setting) -> str:
    if field.default is not None:
        return f"`{show_value(field.default)}`"
    found = any(word in field.meaning for word in ("automatic", "left out"))
    return "automatic" if found else "none"


def _take_first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
