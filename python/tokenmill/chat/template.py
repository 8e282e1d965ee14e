"""Which template a tokenizer's conversations are rendered with, and the template ready to run."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from tokenmill.chat.conversation import RecordError
from tokenmill.chat.limits import LARGEST_TEMPLATE, Budget, TemplateLimitError
from tokenmill.errors import ConfigError, explain_missing
from tokenmill.tokenizer.files.names import CHAT_TEMPLATE, CHAT_TEMPLATES, TOKENIZER_CONFIG
from tokenmill.tokenizer.recipe import find_role_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from tokenmill.chat.symbols import Tracer
    from tokenmill.tokenizer.recipe import Recipe

DEFAULT = "default"
OPTION = "--chat-template FILE|NAME"


def find_own_templates(recipe: Recipe) -> dict[str, str]:
    """The templates that came with a tokenizer, by name; the one without a name is `default`."""
    found = _list_templates(recipe.config.get("chat_template"))
    beside = Path(recipe.source).parent if Path(recipe.source).is_file() else Path(recipe.source)
    if not beside.is_dir():
        return found
    if not found and (beside / TOKENIZER_CONFIG).is_file():
        try:
            config = json.loads((beside / TOKENIZER_CONFIG).read_bytes())
        except ValueError as error:
            raise ConfigError(f"{beside / TOKENIZER_CONFIG}: broken JSON: {error}") from None
        found = _list_templates(config.get("chat_template") if isinstance(config, dict) else None)
    if (beside / CHAT_TEMPLATE).is_file():
        found[DEFAULT] = _read(beside / CHAT_TEMPLATE)
    for path in sorted((beside / CHAT_TEMPLATES).glob("*.jinja")):
        found[path.stem] = _read(path)
    return found


def _list_templates(value: Any) -> dict[str, str]:
    """A text, or a list of named ones, as config files have them."""
    if isinstance(value, str):
        return {DEFAULT: value}
    pairs: list[tuple[Any, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list):
        pairs = [(item.get("name"), item.get("template")) for item in value if isinstance(item, dict)]
    return {name: text for name, text in pairs if isinstance(name, str) and isinstance(text, str)}


def list_built_in() -> dict[str, Path]:
    """The templates that are always there, by name."""
    folder = Path(str(files("tokenmill.chat") / "templates"))
    return {path.stem: path for path in sorted(folder.glob("*.jinja"))}


def find_template(recipe: Recipe, asked: str | None) -> tuple[str, str]:
    """The name and the text of the template that is asked for: a file, a name, or the tokenizer's own."""
    own = find_own_templates(recipe)
    if asked is not None and Path(asked).is_file():
        return asked, _read(Path(asked))
    name = DEFAULT if asked is None else asked
    if name in own:
        return (name if asked else f"{Path(recipe.source).name}'s own"), own[name]
    known = list_built_in()
    if asked in known:
        return asked, known[asked].read_text(encoding="utf-8")
    if asked is None:
        others = f"it has only {', '.join(own)}; " if own else ""
        raise ConfigError(
            f"{recipe.source} has no chat template, so conversations cannot be rendered: {others}give "
            f"{OPTION}, a Jinja file or one of {', '.join([*own, *known])}"
        )
    raise ConfigError(
        f"chat_template {asked!r} is neither a file nor a template of {recipe.source}; "
        f"known templates: {', '.join([*own, *known])}"
    )


def _read(path: Path) -> str:
    if path.stat().st_size > LARGEST_TEMPLATE:
        raise ConfigError(
            f"{path} has {path.stat().st_size} bytes; a template may have at most {LARGEST_TEMPLATE}"
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None


def list_token_variables(recipe: Recipe) -> dict[str, str]:
    """`bos_token`, `eos_token` and what else the config names, as templates ask for them."""
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


@dataclass(frozen=True)
class ChatTemplate:
    """A template and what it is given besides the messages; it is compiled in each process that runs it."""

    name: str
    source: str
    today: date
    variables: dict[str, Any] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatTemplate, (self.name, self.source, self.today, self.variables)

    @property
    def tells_the_date(self) -> bool:
        """Whether the day on which it runs is in what it writes."""
        return "strftime_now" in self.source

    @cached_property
    def _lock(self) -> Any:
        return RLock()

    @cached_property
    def _compiled(self) -> tuple[Any, Any]:
        with explain_missing("jinja2", "chat", "a chat template"):
            from jinja2.exceptions import TemplateSyntaxError

            from tokenmill.chat.environment import ChatEnvironment
        if len(self.source) > LARGEST_TEMPLATE:
            raise ConfigError(f"chat template {self.name} has more than {LARGEST_TEMPLATE} characters")
        environment = ChatEnvironment(self.today)
        try:
            return environment, environment.from_string(self.source)
        except TemplateSyntaxError as error:
            raise ConfigError(f"chat template {self.name}, line {error.lineno}: {error.message}") from None
        except RecursionError:
            raise ConfigError(f"chat template {self.name} is nested too deeply to be read") from None

    def check(self) -> None:
        """Compile it now, so that a fault in its text is reported before a job begins."""
        assert self._compiled

    @contextmanager
    def use_tracer(self, tracer: Tracer | None) -> Iterator[None]:
        """Within this block, this thread may render symbols of `tracer`."""
        with self._lock:
            environment, _ = self._compiled
            before, environment.tracer = environment.tracer, tracer
            try:
                yield
            finally:
                environment.tracer = before

    def render(self, messages: list[dict[str, Any]], more: dict[str, Any], *, prompt: bool = False) -> str:
        """The text of some messages; raises `RecordError` with the reason if the template refuses them."""
        with self._lock:
            environment, template = self._compiled
            environment.budget = Budget()
            given = {"tools": None, "documents": None, **self.variables, **more}
            context = template.new_context({**given, "messages": messages, "add_generation_prompt": prompt})
            return str(_run(self.name, environment, template, context))


def _run(name: str, environment: Any, template: Any, context: Any) -> Any:
    from jinja2.exceptions import TemplateError

    from tokenmill.chat.symbols import UntraceableError

    try:
        return environment.concat(template.root_render_func(context))
    except UntraceableError:
        raise
    except TemplateLimitError as error:
        raise RecordError("template_limit", f"the chat template {name} was stopped: {error}") from None
    except RecursionError:
        raise RecordError("template_limit", f"the chat template {name} calls itself without end") from None
    except TemplateError as error:
        raise RecordError("template_refuses", f"the chat template {name} says: {error.message}") from None
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError) as error:
        raise RecordError(
            "template_refuses", f"the chat template {name} fails: {type(error).__name__}: {error}"
        ) from None
