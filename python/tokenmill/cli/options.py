"""Command-line options made from the schema: a flag and a YAML key share one spelling and one help text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from tokenmill.settings.describe import show_value
from tokenmill.settings.names import list_bare_names
from tokenmill.settings.schema import SETTINGS
from tokenmill.settings.section import strip_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.settings.section import Job

_SHORT = {"output.path": "-o", "tokenizer.tokenizer_name": "-t"}


def add_settings(job: Job, *sections: str) -> Callable[[Any], Any]:
    """Add an option for every setting that a job takes from these sections, as `section__key` arguments."""
    names = [
        full
        for section in sections
        for full, each in SETTINGS.items()
        if full.startswith(f"{section}.") and each.only in {None, job} and full != "source.inputs"
    ]

    def decorate(function: Any) -> Any:
        for full in reversed(names):
            function = _make_option(full, job)(function)
        return function

    return decorate


def pick_given(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that were typed: `{"packing__mode": "concat", ...}` -> `{"packing.mode": "concat"}`."""
    given = {name.replace("__", ".", 1): value for name, value in values.items() if "__" in name}
    return {name: value for name, value in given.items() if value is not None and value != ()}


def _make_option(full: str, job: Job) -> Callable[[Any], Any]:
    setting = SETTINGS[full]
    annotation = strip_rules(setting.annotation)
    first = setting.flag or full.partition(".")[2]
    others = sorted(word for word, name in list_bare_names(job).items() if name == full and word != first)
    names = [f"--{word.replace('_', '-')}" for word in (first, *others)]
    if full in _SHORT:
        names.append(_SHORT[full])
    many = get_origin(annotation) is tuple
    help_ = setting.help.partition("\n")[0] + (" May be repeated." if many else "")
    kinds, words = _list_kinds(annotation), sorted(_list_words(annotation))
    if bool in kinds and str not in kinds:
        both = f"{names[0]}/--no-{names[0][2:]}"
        return click.option(both, full.replace(".", "__"), default=None, help=help_)
    choice = click.Choice(words, case_sensitive=False) if words and str not in kinds else None
    metavar = None if choice else "TEXT" if str in kinds else "NUMBER"
    if setting.default not in {None, ()}:
        shown = ", ".join(map(show_value, setting.default if many else [setting.default]))
        help_ += f"  [default: {shown}]"
    return click.option(
        *names, full.replace(".", "__"), multiple=many, type=choice, metavar=metavar, help=help_
    )


def _list_kinds(annotation: Any) -> set[Any]:
    parts = get_args(annotation)
    if not parts or get_origin(annotation) is Literal:
        return {annotation} if isinstance(annotation, type) else set()
    return set().union(*(_list_kinds(part) for part in parts if not isinstance(part, str)))


def _list_words(annotation: Any) -> set[str]:
    if get_origin(annotation) is Literal:
        return {word for word in get_args(annotation) if isinstance(word, str)}
    return set().union(set(), *(_list_words(part) for part in get_args(annotation)))
