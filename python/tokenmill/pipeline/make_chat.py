"""From settings to what a job does with conversations: the template found, compiled, given its variables."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from tokenmill.chat.chat import Chat
from tokenmill.chat.conversation import RecordShape
from tokenmill.chat.ids import ChatEncoder
from tokenmill.chat.template import (
    ChatTemplate,
    find_template,
    list_token_variables,
)
from tokenmill.errors import ConfigError
from tokenmill.pipeline.chat import ChatWork
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.settings.schema import ChatConfig, JobConfig
    from tokenmill.tokenizer.recipe import Recipe


def make_chat(config: JobConfig, encoder: Any) -> ChatWork:
    """What a job does with its records; raises `ConfigError` if the template is missing or broken."""
    if not isinstance(encoder, Tokenizer):
        raise ConfigError("conversations need a tokenizer that tokenmill loads; give its path or its hub id")
    source, settings = config.source, config.chat
    shape = RecordShape(
        source.messages_field,
        source.prompt_field,
        source.completion_field,
        settings.system,
        source.chat_columns,
    )
    made = ChatEncoder(encoder)
    replaces = source.on_error == "replace"
    template = make_template(encoder.recipe, settings)
    return ChatWork(Chat(shape, template, settings.train_on, made.strings, replaces), made)


def make_template(recipe: Recipe, settings: ChatConfig) -> ChatTemplate:
    """The template that is asked for, or the tokenizer's own, compiled."""
    name, text = find_template(recipe, settings.chat_template)
    variables = list_token_variables(recipe) | read_variables(settings.chat_variables)
    template = ChatTemplate(name, text, _read_date(settings.chat_date), variables)
    template.check()
    return template


def read_variables(given: tuple[str, ...]) -> dict[str, Any]:
    """`("enable_thinking=false", "name=Ann")` -> `{"enable_thinking": False, "name": "Ann"}`."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"chat_variables: {each!r} is not name=value, such as enable_thinking=false")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _read_date(given: str | None) -> date:
    if given is None:
        return datetime.now().astimezone().date()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ConfigError(f"chat_date {given!r} is not a date; expected one such as 2026-01-31") from None
