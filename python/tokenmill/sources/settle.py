"""Settle what the user left open: which field is the text, looked up in the first input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.fields import choose
from tokenmill.sources.formats import format_of
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile


def settle(config: SourceConfig, files: Sequence[InputFile]) -> tuple[SourceConfig, list[str]]:
    """The config with its text field (or template) filled in, and lines that say what was chosen."""
    chosen = [f"Input: {len(files)} file(s), {_formats(files)}"]
    chosen += [
        f"Text files: {line}" for line in sorted({_txt_words(file) for file in files if file.format == "txt"})
    ]
    chosen += [note for file in files for note in file.notes]
    if config.text_field or config.template:
        return config, chosen
    for first in (file for file in files if file.format != "txt" and not _empty(file)):
        try:
            strings, everything = format_of(first).names(first, config)
        except FileFaultError:
            if config.on_error == "fail":
                raise
            continue
        if everything or first.format != MEMORY:  # an iterable may turn out to be empty
            return _chosen(config, chosen, choose(strings, everything, first.url), first.url)
    return config, chosen


def _chosen(
    config: SourceConfig, lines: list[str], choice: tuple[str | None, str | None], url: str
) -> tuple[SourceConfig, list[str]]:
    field, template = choice
    words = f"field {field!r}" if field else f"template {template!r}"
    chosen = replace(config, text_field=field, template=template)
    return chosen, [*lines, f"Text: {words} (found in {url})"]


def _empty(file: InputFile) -> bool:
    return file.size == 0 and file.format != MEMORY


def _formats(files: Sequence[InputFile]) -> str:
    kinds = sorted({f"{file.format}, {file.compression or 'plain'}" for file in files})
    return "; ".join(kinds)


def _txt_words(file: InputFile) -> str:
    if file.txt_mode == "separator":
        return f"a document ends at each {file.separator!r}"
    return "each line is a document" if file.txt_mode == "line" else "each file is a document"
