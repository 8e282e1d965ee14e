"""Which field or template makes a document's text, given or detected."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile, Range

TEXT_NAMES = (
    "text",
    "content",
    "body",
    "document",
    "raw_content",
    "article",
    "passage",
    "markdown",
    "code",
    "sentence",
)
TURN_NAMES = (
    ("prompt", "response"),
    ("prompt", "completion"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("question", "answer"),
    ("input", "output"),
)
# Fields of messages; the first that is there is taken.
MESSAGES_NAMES = ("messages", "conversations", "conversation")
# A question may come with the text that it is about.
CONTEXT_NAMES = {"instruction": ("input", "context")}
# Fields that a conversation's template may ask for, and a system message of its own.
BESIDE_NAMES = ("system", "tools", "documents", "chat_template_kwargs")
PREFERENCE_NAMES = ("chosen", "rejected")
# A text of this part alone is the whole record, as JSON.
RECORD: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fields:
    """The parts of a text (a `str` is literal, a tuple of keys is a field), the id, and columns."""

    text: tuple[str | tuple[str, ...], ...]
    id: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    # Of a text that is the record, the fields that it needs; others may be left out.
    record: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the text is the record itself."""
        return self.text == (RECORD,)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the columns beside the text, the id first if there is one."""
        columns = tuple(split_path(name) for name in self.columns)
        return ((self.id,) if self.id else ()) + columns

    @property
    def roots(self) -> list[str]:
        """The top-level names that must be read, each once."""
        parts = [part for part in self.text if isinstance(part, tuple) and part]
        named = [split_path(name)[0] for name in self.record]
        return list(dict.fromkeys([*named, *(path[0] for path in (*parts, *self.paths))]))


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader of one format is asked for."""

    file: InputFile
    part: Range
    config: SourceConfig
    fields: Fields
    block_bytes: int
    parts: bool = False


def make_fields(config: SourceConfig, columns: Sequence[str] = ()) -> Fields:
    """The fields that a config names; `text` if it names none."""
    if config.text_field is not None and config.template is not None:
        raise ConfigError("text_field and template are both given; keep one of them")
    named = split_path(config.id_field) if config.id_field else None
    if record := list_record_fields(config):
        return Fields((RECORD,), named, tuple(columns), record)
    if config.template is not None:
        text = parse_template(config.template)
    else:
        text = (split_path(config.text_field or "text"),)
    return Fields(text, named, tuple(columns))


def list_record_fields(config: SourceConfig) -> tuple[str, ...]:
    """The fields that a conversation of this config is made of; none where documents are texts."""
    fields = (config.messages_field,) if config.messages_field else config.prompt_field
    if not fields:
        return ()
    answer = (config.completion_field,) if config.completion_field and not config.messages_field else ()
    return (*fields, *answer, *BESIDE_NAMES, *config.chat_columns)


def choose_conversation(
    strings: Sequence[str], everything: Sequence[str], where: str
) -> dict[str, Any] | None:
    """The settings for records that are conversations; None if a field is simply the text.

    `choose_conversation([], ["messages"], ...)` -> `{"messages_field": "messages"}`.
    """
    if any(name in strings for name in TEXT_NAMES):
        return None
    for name in MESSAGES_NAMES:
        if name in everything and name not in strings:
            return {"messages_field": name}
    if all(name in everything for name in PREFERENCE_NAMES):
        raise InputError(
            f"{where}: these are preference pairs ({', '.join(everything)}), which a loss mask cannot "
            "express: it only says what is learned. To learn the chosen answers, set messages_field: chosen "
            "(or completion_field: chosen and a prompt_field)"
        )
    for prompt, completion in TURN_NAMES:
        if prompt in everything and completion in everything:
            about = tuple(name for name in CONTEXT_NAMES.get(prompt, ()) if name in strings)
            return {"prompt_field": (prompt, *about), "completion_field": completion}
    return None


def split_path(name: str) -> tuple[str, ...]:
    r"""Dots lead into objects, `\.` is a dot: `"meta.lang"` -> `("meta", "lang")`."""
    parts = name.replace("\\.", "\0").split(".")
    if not all(parts):
        raise ConfigError(
            f"{name!r} is not a field name: it has an empty part; write a dot in a name as '\\.'"
        )
    return tuple(part.replace("\0", ".") for part in parts)


def parse_template(template: str) -> tuple[str | tuple[str, ...], ...]:
    r"""`"{title}\n\n{text}"` -> `(("title",), "\n\n", ("text",))`; `{{` and `}}` are braces."""
    parts: list[str | tuple[str, ...]] = []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(template):
            if literal:
                parts.append(literal)
            if name is None:
                continue
            if not name or spec or conversion:
                raise ConfigError(
                    f"template {template!r}: write a plain field name in braces, not {{{name}}}"
                )
            parts.append(split_path(name))
    except ValueError as error:
        raise ConfigError(f"template {template!r}: {error}; write a literal brace twice") from error
    if not any(isinstance(part, tuple) for part in parts):
        raise ConfigError(
            f"template {template!r} names no field; write one in braces, as in '{{title}}\\n\\n{{text}}'"
        )
    return tuple(parts)


def choose(strings: Sequence[str], everything: Sequence[str], where: str) -> tuple[str | None, str | None]:
    """The text field (or a template for instruction data) among columns of strings.

    `choose(["title", "text"], ...)` -> `("text", None)`; `["prompt", "response"]` -> a template.
    """
    for name in TEXT_NAMES:
        if name in strings:
            return name, None
    for turns in TURN_NAMES:
        if all(name in strings for name in turns):
            return None, "\n\n".join(f"{{{name}}}" for name in turns)
    if len(strings) == 1:
        return strings[0].replace(".", "\\."), None
    raise InputError(
        f"{where}: cannot tell which field is the text. It has {', '.join(everything) or 'no fields'}; "
        f"of these {', '.join(strings) or 'none'} hold strings. Name one with text_field, or several with a "
        'template such as "{title}\\n\\n{text}"'
    )
