"""The keyword arguments that an editor completes are those of the schema.

After a change of the schema:  python tests/unit/config/test_typed_options.py > python/tokenmill/settings/options.py
"""

import types
from pathlib import Path
from typing import Literal, Union, get_args, get_origin

from tokenmill.settings import fields, options
from tokenmill.settings.kinds import strip_rules
from tokenmill.settings.names import SECTIONS, SETTINGS, find_full_name

# Named arguments of `prepare` and `train`; a keyword cannot be both.
ARGUMENTS = {"prepare": {"inputs", "tokenizer", "output"}, "train": {"inputs", "vocab_size"}}
HEAD = '''"""The settings as keyword arguments, for editors and type checkers; made from the schema by a test.

See tests/unit/config/test_typed_options.py. A section may also be given whole: `packing={"mode": "pad"}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from tokenmill.settings.fields import (
%s
    )

    Path = str | PathLike[str]
    Bytes = int | str

'''
NAMED = {
    getattr(fields, name): name
    for name in (
        "Column",
        "ExecutorName",
        "Format",
        "OnError",
        "OutputFormat",
        "PackingMode",
        "SaveFormat",
        "TieBreak",
    )
}
WORDS = {int: "int", float: "float", str: "str", bool: "bool", types.NoneType: "None"}
PATHS = {"path", "save_counts", "spill_dir"}


def spell(annotation):
    """A type as a caller may give it: a size may be text, a list may be one item."""
    if annotation == fields.Size:
        return "Bytes"
    if annotation == fields.Names:
        return "Path | Sequence[Path]"
    if annotation == fields.WeightedNames:
        return "Path | Sequence[Path | tuple[Path, float]]"
    if annotation in NAMED:
        return NAMED[annotation]
    plain, parts = strip_rules(annotation), get_args(strip_rules(annotation))
    if get_origin(plain) in {Union, types.UnionType}:
        return " | ".join(spell(part) for part in parts)
    if get_origin(plain) is tuple:
        item = spell(parts[0])
        return f"{item} | Sequence[{item}]"
    if get_origin(plain) is Literal:
        return f"Literal[{', '.join(repr(word) for word in parts)}]".replace("'", '"')
    return WORDS[plain]


def taken(job):
    return ARGUMENTS[job] if job else {"inputs", "output", "path", "format"}


def lines_of(job):
    """Each keyword of the settings that this job alone looks at, or both (None)."""
    found = {}
    for full, setting in SETTINGS.items():
        key = full.partition(".")[2]
        for name in dict.fromkeys([key, setting.spelled or key]):
            if (
                setting.only == job
                and find_full_name(name, job or "train") == full
                and name not in taken(job)
            ):
                found[name] = "Path | None" if key in PATHS else spell(setting.annotation)
    for section, model in SECTIONS.items():
        if model.job == job and section not in taken(job):
            found[section] = (
                f"{found[section]} | bool | dict[str, Any]" if section in found else "dict[str, Any]"
            )
    return "".join(f"    {name}: {kind}\n" for name, kind in found.items())


def text():
    shared = lines_of(None)
    body = f'''
class _Both(TypedDict, total=False):
{shared}

class PrepareOptions(_Both, total=False):
    """Settings of `tokenmill.prepare`, beside its named arguments."""

{lines_of("prepare")}

class TrainOptions(_Both, total=False):
    """Settings of `tokenmill.train`, beside its named arguments."""

    output: Path | None
{lines_of("train")}'''
    used = [name for name in sorted(NAMED.values()) if name in body]
    return HEAD % "\n".join(f"        {name}," for name in used) + body


def test_the_typed_options_are_those_of_the_schema():
    assert Path(options.__file__).read_text(encoding="utf-8") == text(), __doc__


if __name__ == "__main__":
    print(text(), end="")
