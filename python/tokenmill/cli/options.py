"""Command-line options made from the schema: a flag and a YAML key share one spelling and one help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from tokenmill.settings.kinds import without_rules
from tokenmill.settings.names import ALIASES, SECTIONS, SPELLING, full_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NOT_FLAGS = {"source.inputs"}


def setting_options(*sections: str) -> Callable[[Any], Any]:
    """Add an option for every setting of these sections; they arrive as `section__key` keyword arguments."""

    def decorate(function: Any) -> Any:
        for section in reversed(sections):
            for key in reversed(SECTIONS[section].settings):
                if f"{section}.{key}" not in _NOT_FLAGS:
                    function = _option(section, key)(function)
        return function

    return decorate


def given_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Those that the user typed: `{"packing__mode": "concat", ...}` -> `{"packing.mode": "concat"}`."""
    given = {name.replace("__", ".", 1): value for name, value in values.items() if "__" in name}
    return {name: value for name, value in given.items() if value is not None and value != ()}


def _option(section: str, key: str) -> Callable[[Any], Any]:
    annotation = without_rules(SECTIONS[section].settings[key].annotation)
    name = SPELLING.get(f"{section}.{key}", key).replace("_", "-")
    parameter = f"{section}__{key}"
    kinds = _kinds(annotation)
    if bool in kinds and str not in kinds:
        return click.option(f"--{name}/--no-{name}", parameter, default=None, cls=_Setting)
    names = [f"--{name}", *_other_words(f"{section}.{key}", name)]
    if get_origin(annotation) is tuple:
        words = sorted(_words(annotation))
        return click.option(*names, parameter, multiple=True, type=click.Choice(words), cls=_Setting)
    words = sorted(_words(annotation))
    if words and str not in kinds:
        return click.option(*names, parameter, type=click.Choice(words, case_sensitive=False), cls=_Setting)
    return click.option(*names, parameter, metavar=_metavar(kinds), cls=_Setting)


class _Setting(click.Option):
    """An option whose help is looked up when it is shown: reading it takes longer than most commands."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from tokenmill.settings.meanings import meaning

        section, _, key = (self.name or "").partition("__")
        self.help = meaning(SECTIONS[section], key).split("\n", 1)[0]
        if self.multiple:
            self.help += " May be repeated."
        return super().get_help_record(ctx)


def _other_words(full: str, name: str) -> Iterable[str]:
    others = [f"--{alias.replace('_', '-')}" for alias, target in ALIASES.items() if target == full]
    own = full.partition(".")[2]
    if full_name(own) == full:
        others.append(f"--{own.replace('_', '-')}")
    return sorted({other for other in others if other != f"--{name}"})


def _kinds(annotation: Any) -> set[Any]:
    parts = get_args(annotation)
    if not parts or get_origin(annotation) is Literal:
        return {annotation} if isinstance(annotation, type) else set()
    return set().union(*(_kinds(part) for part in parts if not isinstance(part, str)))


def _words(annotation: Any) -> set[str]:
    if get_origin(annotation) is Literal:
        return {word for word in get_args(annotation) if isinstance(word, str)}
    return set().union(set(), *(_words(part) for part in get_args(annotation)))


def _metavar(kinds: set[Any]) -> str:
    if str in kinds:
        return "TEXT"
    return "NUMBER" if int in kinds or float in kinds else "VALUE"
