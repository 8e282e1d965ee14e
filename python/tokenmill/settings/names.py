"""Which section a name belongs to, and the nearest known name to a mistyped one.

Users write settings in four ways: `section.key`, the bare key (`num_proc=8`), a word that other tools
use (`tokenizer=`, `output=`), and the performance keys inside the `tokenizer:` section of a YAML file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.base.errors import ConfigError
from tokenmill.settings.schema import JobConfig

if TYPE_CHECKING:
    from tokenmill.settings.section import Section

SECTIONS: dict[str, type[Section]] = {name: each.annotation for name, each in JobConfig.settings.items()}
KEYS = tuple(f"{section}.{key}" for section, model in SECTIONS.items() for key in model.settings)

# The `tokenizer:` section of existing YAML files also carries rows, speed and words.
IN_TOKENIZER = {
    "context_length": "packing.context_length",
    "overlap": "packing.overlap",
    "batch_size": "execution.batch_size",
    "writer_batch_size": "execution.writer_batch_size",
    "num_proc": "execution.num_proc",
    "threads": "execution.threads",
    "keep_in_memory": "execution.keep_in_memory",
    "show_progress": "execution.show_progress",
    "verbose_level": "execution.verbose_level",
}

ALIASES = {
    "input": "source.inputs",
    "input_format": "source.format",
    "tokenizer": "tokenizer.tokenizer_name",
    "tokenizer_path": "tokenizer.tokenizer_name",
    "packing": "packing.mode",
    "output": "output.path",
    "output_dir": "output.path",
    "output_format": "output.format",
    # A bare `format` is the output's: the input's is nearly always detected.
    "format": "output.format",
    "workers": "execution.threads",
}

# The words that people type first; every other setting is its own key.
SPELLING = {
    "tokenizer.tokenizer_name": "tokenizer",
    "output.path": "output",
    "output.format": "format",
    "source.format": "input_format",
    "packing.mode": "packing",
}


def _bare_names() -> dict[str, str]:
    """`{"num_proc": "execution.num_proc", ...}` for every key that only one section has."""
    owners: dict[str, list[str]] = {}
    for full in KEYS:
        owners.setdefault(full.partition(".")[2], []).append(full)
    return {key: full[0] for key, full in owners.items() if len(full) == 1} | ALIASES


BARE = _bare_names()


def full_name(name: str) -> str | None:
    """`"num_proc"` or `"num-proc"` or `"execution.num_proc"` -> `"execution.num_proc"`; None if unknown."""
    name = name.replace("-", "_")
    if name in BARE:
        return BARE[name]
    section, _, key = name.partition(".")
    if section == "tokenizer" and key in IN_TOKENIZER:
        return IN_TOKENIZER[key]
    return name if name in KEYS else None


def nearest(name: str, known: list[str]) -> str:
    """`" Did you mean 'batch_size'?"`, or nothing when no known name is near."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown(name: str, place: str, known: list[str]) -> ConfigError:
    """The error for a name that nobody knows, with the nearest one and the whole list."""
    listed = ", ".join(sorted(known))
    return ConfigError(f"{place}: unknown key {name!r}.{nearest(name, known)} Known here: {listed}")
