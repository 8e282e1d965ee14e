"""Decide what the user left open: which field is the text, by looking at the first input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokenmill.base.console import words
from tokenmill.errors import ConfigError
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.fields import choose, choose_conversation
from tokenmill.sources.formats import find_input_format
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile


def settle(
    config: SourceConfig, files: Sequence[InputFile], prefers_chat: Callable[[], bool] | None = None
) -> tuple[SourceConfig, list[str]]:
    """The config with its text field (or template) filled in, and lines that say what was chosen.

    `prefers_chat` says whether a prompt and its completion are a conversation; without it no record is one.
    """
    kinds = sorted({f"{file.format}, {file.compression or 'plain'}" for file in files})
    chosen = [f"Input: {words.amount(len(files), 'file')}, {'; '.join(kinds)}"]
    chosen += [
        f"Text files: {line}"
        for line in sorted({_describe_txt_mode(file) for file in files if file.format == "txt"})
    ]
    chosen += [note for file in files for note in file.notes]
    if config.messages_field or config.prompt_field:
        return _check_pair(config), [*chosen, _describe_conversation(config)]
    if config.text_field or config.template:
        return config, chosen
    for first in (file for file in files if file.format != "txt" and (file.size or file.format == MEMORY)):
        try:
            strings, everything = find_input_format(first).list_fields(first, config)
        except FileFaultError:
            if config.on_error == "fail":
                raise
            continue
        if everything or first.format != MEMORY:  # an iterable may turn out to be empty
            if prefers_chat is not None and (
                found := _find_conversation(config, strings, everything, first.url, prefers_chat)
            ):
                return found, [*chosen, f"{_describe_conversation(found)} (found in {first.url})"]
            return _apply_choice(config, chosen, choose(strings, everything, first.url), first.url)
    return config, chosen


def _find_conversation(
    config: SourceConfig,
    strings: Sequence[str],
    everything: Sequence[str],
    url: str,
    prefers_chat: Callable[[], bool],
) -> SourceConfig | None:
    """Records as conversations; a pair of texts without a template stays the text that it always was."""
    found = choose_conversation(strings, everything, url)
    if found is None:
        return None
    pair = found.get("prompt_field", ())
    texts = pair and all(name in strings for name in (*pair, found["completion_field"]))
    return None if texts and not prefers_chat() else replace(config, **found)


def _check_pair(config: SourceConfig) -> SourceConfig:
    if config.prompt_field and config.messages_field:
        raise ConfigError("messages_field and prompt_field are both given; keep one of them")
    if config.prompt_field and not config.completion_field:
        raise ConfigError(f"prompt_field {', '.join(config.prompt_field)} needs a completion_field")
    if config.text_field or config.template:
        raise ConfigError("a conversation has no text_field and no template; leave them out")
    return config


def _describe_conversation(config: SourceConfig) -> str:
    if config.messages_field:
        return f"Conversations: field {config.messages_field!r}"
    asked = " and ".join(repr(name) for name in config.prompt_field)
    return f"Conversations: {asked} answered by {config.completion_field!r}"


def _apply_choice(
    config: SourceConfig, lines: list[str], choice: tuple[str | None, str | None], url: str
) -> tuple[SourceConfig, list[str]]:
    field, template = choice
    words = f"field {field!r}" if field else f"template {template!r}"
    chosen = replace(config, text_field=field, template=template)
    return chosen, [*lines, f"Text: {words} (found in {url})"]


def _describe_txt_mode(file: InputFile) -> str:
    if file.txt_mode == "separator":
        return f"a document ends at each {file.separator!r}"
    return "each line is a document" if file.txt_mode == "line" else "each file is a document"
