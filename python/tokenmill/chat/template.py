"""Choose the chat template of a tokenizer, compile it and run it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenmill.chat.records import ANSWERER, Message, RecordError
from tokenmill.chat.tracing import Layout, Origin, UntraceableError, lay_out, trace_message, trace_value
from tokenmill.errors import ConfigError, explain_missing
from tokenmill.settings.schema import ChatConfig
from tokenmill.tokenizer.files.hf import read_config_beside
from tokenmill.tokenizer.files.names import CHAT_TEMPLATE, CHAT_TEMPLATES, TOKENIZER_CONFIG
from tokenmill.tokenizer.recipe import Recipe, find_role_id

DEFAULT = "default"
OPTION = "`chat_template`"


def list_own_templates(recipe: Recipe) -> dict[str, str]:
    """Return the templates of a tokenizer by name; a template without a name is `default`."""
    folder = Path(recipe.source).parent if Path(recipe.source).is_file() else Path(recipe.source)
    # Some formats are loaded without their config file.
    beside = read_config_beside(folder / TOKENIZER_CONFIG)
    given = recipe.config.get("chat_template") or beside.get("chat_template") or []
    named = [{"name": DEFAULT, "template": given}] if isinstance(given, str) else given
    found = {item["name"]: item["template"] for item in named if {"name", "template"} <= item.keys()}
    if (folder / CHAT_TEMPLATE).is_file():
        found[DEFAULT] = _read(folder / CHAT_TEMPLATE)
    for path in sorted((folder / CHAT_TEMPLATES).glob("*.jinja")):
        found[path.stem] = _read(path)
    return found


def list_built_in() -> dict[str, Path]:
    """Return the paths of the built-in templates, by name."""
    folder = Path(str(files("tokenmill.chat") / "templates"))
    return {path.stem: path for path in sorted(folder.glob("*.jinja"))}


def find_template(recipe: Recipe, asked: str | None) -> tuple[str, str]:
    """Return the name and the text of a template: a file, a name, or the tokenizer's own."""
    own = list_own_templates(recipe)
    if asked is None and DEFAULT in own:
        return f"{Path(recipe.source).name}'s own", own[DEFAULT]
    if asked is not None and Path(asked).is_file():
        return asked, _read(Path(asked))
    known = {name: _read(path) for name, path in list_built_in().items()} | own
    if asked in known:
        return asked, known[asked]
    raise ConfigError(
        f"{recipe.source} has no chat template{f' {asked!r}' if asked else ''}, so conversations cannot be "
        f"rendered: give {OPTION}, a Jinja file or one of {', '.join(known)}"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None


def make_template(recipe: Recipe, chat: ChatConfig) -> ChatTemplate:
    """Return the compiled template that is named in the settings, or the tokenizer's own."""
    name, text = find_template(recipe, chat.chat_template)
    if chat.mask_style == "trl" and "{%- generation" not in text.replace("{% ", "{%- "):
        name, text = _find_training_template(name, text)
    given = list_token_variables(recipe) | parse_variables(chat.chat_variables)
    return ChatTemplate(name, text, _parse_date(chat.chat_date), given)


def _find_training_template(name: str, text: str) -> tuple[str, str]:
    """Return the installed TRL's variant of a template, which has `generation` blocks."""
    package = find_spec("trl")
    if package is None or package.origin is None:
        raise ConfigError("mask_style trl uses the templates of TRL, which is not installed: pip install trl")
    for path in sorted((Path(package.origin).parent / "chat_templates").glob("*_training.jinja")):
        stock = path.with_name(path.name.replace("_training", ""))
        if stock.is_file() and _read(stock) == text:
            return f"{path.stem} of TRL {version('trl')}", _read(path)
    raise ConfigError(
        f"mask_style trl: TRL {version('trl')} has no training template for the chat template {name}; "
        f"give one that marks answers with generation blocks by {OPTION}"
    )


def parse_variables(given: Sequence[str]) -> dict[str, Any]:
    """Return `{"enable_thinking": False, "name": "Ann"}` for `("enable_thinking=false", "name=Ann")`."""
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


def _parse_date(given: str | None) -> date:
    if given is None:
        return datetime.now().astimezone().date()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ConfigError(f"chat_date {given!r} is not a date; expected one such as 2026-01-31") from None


def list_token_variables(recipe: Recipe) -> dict[str, str]:
    """Return `bos_token`, `eos_token` and the other tokens that templates use."""
    found: dict[str, str] = {}
    for key, value in recipe.config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            found[key] = text
    strings = {token.id: token.content for token in recipe.added}
    for role in ("bos", "eos", "pad", "unk"):
        if f"{role}_token" not in found and (known := find_role_id(recipe, role)) is not None:
            found[f"{role}_token"] = strings[known]
    return found


@dataclass
class ChatTemplate:
    """A compiled template, and its variables other than the messages."""

    name: str
    source: str
    today: date
    variables: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compile the template; raise `ConfigError` for a syntax error."""
        with explain_missing("jinja2", "chat", "a chat template"):
            from jinja2.exceptions import TemplateSyntaxError

            from tokenmill.chat.environment import PlainEnvironment, TracingEnvironment
        try:
            self._plain: Any = PlainEnvironment(self.today).from_string(self.source)
            self._traced: Any = TracingEnvironment(self.today).from_string(self.source)
        except TemplateSyntaxError as error:
            raise ConfigError(f"chat template {self.name}, line {error.lineno}: {error.message}") from None
        except RecursionError:
            raise ConfigError(f"chat template {self.name} is nested too deeply to be read") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatTemplate, (self.name, self.source, self.today, self.variables)

    @property
    def uses_date(self) -> bool:
        """True if the template uses the current date."""
        return "strftime_now" in self.source

    @cached_property
    def _takes(self) -> str:
        """Return the content type it renders: `text`, `parts` (of vision models), or `both`."""

        def render(content: Any) -> str:
            try:
                return self.render([{"role": role, "content": content} for role in ("user", ANSWERER)], {})
            except RecordError:
                return ""

        text, parts = render("word"), render([{"type": "text", "text": "word"}])
        if text.count("word") == 2:
            return "both" if parts == text else "text"
        return "parts" if parts.count("word") == 2 and "type" not in parts else "text"

    def adapt(self, messages: list[Message]) -> list[Message]:
        """Return messages whose content has the type that the template renders: text, or parts of text."""
        found = []
        for each in messages:
            content = each.get("content")
            if self._takes == "text" and isinstance(content, list):
                found.append({**each, "content": "".join(part["text"] for part in content)})
            elif self._takes == "parts" and isinstance(content, str):
                found.append({**each, "content": [{"type": "text", "text": content}]})
            else:
                found.append(each)
        return found

    def render(self, messages: list[Message], variables: dict[str, Any], *, prompt: bool = False) -> str:
        """Return the text of some messages; raises `RecordError` if the template refuses them or fails."""
        with self._explain_errors():
            text: str = self._plain.render(self._fill(messages, variables, prompt=prompt))
        return text

    def trace(self, messages: list[Message], variables: dict[str, Any]) -> Layout:
        """Return the layout of the template's output for some messages.

        Raises `RecordError` if the template refuses the messages, or writes another text for traced strings.
        """
        from tokenmill.chat.environment import run_traced

        text = self.render(messages, variables)
        traced = [trace_message(message, number) for number, message in enumerate(messages)]
        given = {key: trace_value(value, Origin()) for key, value in variables.items()}
        with self._explain_errors():
            layout = lay_out(run_traced(self._traced, self._fill(traced, given)))
            if layout.text != text:
                raise UntraceableError("it writes another text for strings that are traced")
        return layout

    def _fill(
        self, messages: list[Message], given: dict[str, Any], *, prompt: bool = False
    ) -> dict[str, Any]:
        own = {"tools": None, "documents": None, **self.variables, **given}
        return {**own, "messages": messages, "add_generation_prompt": prompt}

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except UntraceableError as error:
            detail = f"the origin of the text cannot be traced through the chat template: {error}"
            raise RecordError("unproved_mask", detail) from None
        except Exception as error:  # noqa: BLE001 - a template can raise anything that Python can
            detail = f"the chat template {self.name} fails: {type(error).__name__}: {error}"
            raise RecordError("template_refuses", detail) from None
