"""Choose the field, template or conversation of a document's text, from settings or by inference."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenmill.base import words
from tokenmill.errors import ConfigError, InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources.model import MEMORY, FileFaultError, InputFile, Range
from tokenmill.sources.sniff import get_reader

logger = logging.getLogger("tokenmill.sources")
# The number of records from which fields are inferred.
SAMPLE_RECORDS = 100
# Names of text fields with higher and with lower priority than a prompt and its completion.
TEXT_NAMES = ("text", "content", "body", "document", "raw_content", "article")
WEAK_TEXT_NAMES = ("passage", "markdown", "code", "sentence")
TURN_NAMES = (
    ("prompt", "response"),
    ("prompt", "completion"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("question", "answer"),
    ("input", "output"),
)
# Fields of messages; the first that exists is used.
MESSAGES_NAMES = ("messages", "conversations", "conversation")
# Fields with the context of an instruction.
CONTEXT_NAMES = {"instruction": ("input", "context")}
# Other fields of a conversation: a system message, and fields that a chat template may use.
BESIDE_NAMES = ("system", "tools", "documents", "chat_template_kwargs")
PREFERENCE_NAMES = ("chosen", "rejected")
# Ids, loss masks (a token is trained if all are set), labels, and the attention mask.
IDS_NAME, LABELS, ATTENTION = "input_ids", "labels", "attention_mask"
LOSS_MASKS = ("loss_mask", "assistant_masks", "completion_mask")
# The text is the whole record as JSON.
RECORD: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fields:
    """The parts of a text (a `str` is literal, a tuple of keys is a field), the id, and columns."""

    text: tuple[str | tuple[str, ...], ...]
    id: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    # The fields to read if the text is the whole record.
    record: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """True if the text is the record itself."""
        return self.text == (RECORD,)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Return the paths of the columns other than the text, the id first if there is one."""
        columns = tuple(split_path(name) for name in self.columns)
        return ((self.id,) if self.id else ()) + columns

    @property
    def roots(self) -> list[str]:
        """Return the top-level names that must be read, each once."""
        parts = [part for part in self.text if isinstance(part, tuple) and part]
        named = [split_path(name)[0] for name in self.record]
        return list(dict.fromkeys([*named, *(path[0] for path in (*parts, *self.paths))]))


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the reader of a format. With `parts`, a document may come in several blocks."""

    file: InputFile
    part: Range
    config: SourceConfig
    fields: Fields
    block_bytes: int
    parts: bool = False


def make_fields(config: SourceConfig, columns: Sequence[str] = ()) -> Fields:
    """Return the fields of a config; `text` is the default."""
    named = split_path(config.id_field) if config.id_field else None
    if record := list_record_fields(config):
        return Fields((RECORD,), named, tuple(columns), record)
    if config.template is not None:
        text = parse_template(config.template)
    else:
        text = (split_path(config.text_field or "text"),)
    return Fields(text, named, tuple(columns))


def list_record_fields(config: SourceConfig) -> tuple[str, ...]:
    """Return the fields of a conversation or of ids; empty if documents are texts."""
    if config.ids_field:
        return (config.ids_field, *LOSS_MASKS, LABELS, ATTENTION)
    fields = (config.messages_field,) if config.messages_field else config.prompt_field
    if not fields:
        return ()
    answer = (config.completion_field,) if config.completion_field and not config.messages_field else ()
    return (*fields, *answer, *BESIDE_NAMES, *config.chat_columns)


def split_path(name: str) -> tuple[str, ...]:
    r"""Split a field name; dots lead into objects, `\.` is a dot: `"meta.lang"` -> `("meta", "lang")`."""
    parts = name.replace("\\.", "\0").split(".")
    if not all(parts):
        raise ConfigError(
            f"{name!r} is not a field name: it has an empty part; write a dot in a name as '\\.'"
        )
    return tuple(part.replace("\0", ".") for part in parts)


def parse_template(template: str) -> tuple[str | tuple[str, ...], ...]:
    r"""Parse `"{title}\n\n{text}"` -> `(("title",), "\n\n", ("text",))`; `{{` and `}}` are braces."""
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"template {template!r}: {error}; write a literal brace twice") from error
    parts: list[str | tuple[str, ...]] = []
    for literal, name, _, _ in pieces:
        parts += [literal] if literal else []
        parts += [] if name is None else [split_path(name)]
    if all(isinstance(part, str) for part in parts) or any(spec or to for _, _, spec, to in pieces):
        raise ConfigError(
            f"template {template!r}: write plain names of fields in braces, as in '{{title}}\\n\\n{{text}}'"
        )
    return tuple(parts)


def collect_fields(records: Iterable[Mapping[str, bool]]) -> tuple[list[str], list[str]]:
    """Return the names that hold a string (or null) in every record that has them, and all names."""
    kinds: dict[str, bool] = {}
    for record in records:
        for name, text in record.items():
            kinds[name] = kinds.get(name, True) and text
    return [name for name, text in kinds.items() if text], list(kinds)


def infer_fields(
    config: SourceConfig, files: Sequence[InputFile], prefers_chat: Callable[[], bool] | None = None
) -> tuple[SourceConfig, list[str]]:
    """Return the config with its text field, template or conversation, and lines that describe the choice.

    `prefers_chat` returns True if a prompt and its completion form a conversation; None means texts only.
    """
    kinds = sorted({f"{file.format}, {file.compression or 'plain'}" for file in files})
    chosen = [f"Input: {words.amount(len(files), 'file')}, {'; '.join(kinds)}"]
    texts = [file for file in files if file.format == "txt"]
    parts = {f"text before {each.separator!r}" if each.separator else each.txt_mode for each in texts}
    chosen += [f"Text files: each {part} is a document" for part in sorted(map(str, parts))]
    chosen += [note for file in files for note in file.notes]
    if config.messages_field or config.prompt_field or config.ids_field:
        return config, [*chosen, _describe_conversation(config)]
    if config.text_field or config.template:
        return config, chosen
    for first in (file for file in files if file.format != "txt" and (file.size or file.format == MEMORY)):
        try:
            strings, everything = get_reader(first).list_fields(first)
        except FileFaultError:
            if config.on_error == "fail":
                raise
            continue
        if not everything and first.format == MEMORY:
            continue  # an iterable may turn out to be empty
        if prefers_chat is not None:
            found = choose_conversation(strings, everything, first.url)
            pair = [] if found is None else [*found.get("prompt_field", ()), found.get("completion_field")]
            # A pair of texts without a chat template is a text.
            if found and (not set(pair) <= set(strings) or prefers_chat()):
                config = replace(config, **found)
                return config, [*chosen, f"{_describe_conversation(config)} (found in {first.url})"]
        field, template = choose(strings, everything, first.url)
        choice = f"field {field!r}" if field else f"template {template!r}"
        config = replace(config, text_field=field, template=template)
        return config, [*chosen, f"Text: {choice} (found in {first.url})"]
    return config, chosen


def choose_conversation(
    strings: Sequence[str], everything: Sequence[str], where: str
) -> dict[str, Any] | None:
    """Return the settings for conversations or ids, or None for texts; raise for preference pairs.

    `choose_conversation([], ["messages"], ...)` -> `{"messages_field": "messages"}`.
    """
    if any(name in strings for name in TEXT_NAMES):
        return None
    for name in MESSAGES_NAMES:
        if name in everything and name not in strings:
            return {"messages_field": name}
    if IDS_NAME in everything and IDS_NAME not in strings:
        return {"ids_field": IDS_NAME}
    if all(name in everything for name in PREFERENCE_NAMES):
        asked = next((name for name, _ in TURN_NAMES if name in everything), None)
        field = "text_field" if PREFERENCE_NAMES[0] in strings else "messages_field"
        setting = f"prompt_field {asked!r} and completion_field" if asked else field
        sides = [f"{setting} {side!r}" for side in PREFERENCE_NAMES]
        raise InputError(
            f"{where}: these are preference pairs ({', '.join(everything)}); a loss mask expresses "
            f"one side only. Prepare each into its own output: set {', then set '.join(sides)}"
        )
    for prompt, completion in TURN_NAMES:
        if prompt in everything and completion in everything:
            about = tuple(name for name in CONTEXT_NAMES.get(prompt, ()) if name in strings)
            return {"prompt_field": (prompt, *about), "completion_field": completion}
    return None


def choose(strings: Sequence[str], everything: Sequence[str], where: str) -> tuple[str | None, str | None]:
    """Choose the text field, or a template for instruction data, among columns of strings.

    `choose(["title", "text"], ...)` -> `("text", None)`; `["prompt", "response"]` -> a template. Log a
    warning if there is another candidate.
    """
    found: list[tuple[str | None, str | None]] = [(name, None) for name in TEXT_NAMES if name in strings]
    pairs = [turns for turns in TURN_NAMES if all(name in strings for name in turns)]
    found += [(None, "\n\n".join(f"{{{name}}}" for name in turns)) for turns in pairs[:1]]
    found += [(name, None) for name in WEAK_TEXT_NAMES if name in strings]
    if len(found) > 1:
        names = [repr(field or template) for field, template in found]
        logger.warning(
            "%s: the text is %s; %s could be it as well. Set `text_field` or `template` to choose",
            where,
            names[0],
            ", ".join(names[1:]),
        )
    if found:
        return found[0]
    if len(strings) == 1:
        return strings[0].replace(".", "\\."), None
    raise InputError(
        f"{where}: cannot determine which field is the text. Fields: {', '.join(everything) or 'none'}; of "
        f"strings: {', '.join(strings) or 'none'}. Name one with `text_field`, or several with a `template` "
        'such as "{title}\\n\\n{text}"'
    )


def _describe_conversation(config: SourceConfig) -> str:
    if config.ids_field:
        return f"Ids: field {config.ids_field!r}"
    if config.messages_field:
        return f"Conversations: field {config.messages_field!r}"
    asked = " and ".join(repr(name) for name in config.prompt_field)
    return f"Conversations: {asked} answered by {config.completion_field!r}"
