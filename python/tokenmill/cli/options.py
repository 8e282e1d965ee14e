"""Command-line options from the schema, their help, and printing for all commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from copy import copy
from typing import Any, Literal, get_args, get_origin

import click

from tokenmill.base.logs import wrap
from tokenmill.settings.describe import show_value
from tokenmill.settings.resolve import MEANT, list_bare_names
from tokenmill.settings.schema import SECTIONS, SETTINGS
from tokenmill.settings.section import Job, check, describe_type, split_rules

Decorator = Callable[[Any], Any]
Row = tuple[str, str]

# The key in a context's `meta` that requests every option in the help.
IN_FULL = "tokenmill.help.in_full"
WIDEST = 40  # characters of choices after an option; longer ones are in its help
_SHORT = {"output.path": "-o", "tokenizer.tokenizer_name": "-t"}


def say(text: str = "", *, err: bool = False) -> None:
    """Print text, wrapped to the width of a terminal; a pipe gets every line unchanged."""
    click.echo(wrap(sys.stderr if err else sys.stdout, text), err=err)


def show(figures: Any, words: str, *, as_json: bool) -> None:
    """Print figures as JSON or as text."""
    if as_json:
        click.echo(json.dumps(figures, indent=1, ensure_ascii=False))
    else:
        say(words)


def command(*examples: str, **marks: Any) -> Decorator:
    """Return `click.command` with examples below the help; a line that begins with a space continues one."""
    return click.command(epilog="\b\nExamples:\n  " + "\n  ".join(examples), **marks)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class Value(click.ParamType):  # type: ignore[type-arg] # only newer releases of click are generic
    """A type of the schema as the type of an option."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.name = "number" if {int, float} & _list_types(annotation) else "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or fail with what was expected."""
        try:
            return check(self.annotation, value)
        except ValueError:
            self.fail(f"{value!r}: expected {describe_type(self.annotation)}", param, ctx)


def use(*names: str, **changes: Any) -> Decorator:
    """Add options of the schema to a command that is not a job, under their bare names."""

    def decorate(function: Any) -> Any:
        for full in reversed(names):
            name = SETTINGS[full].flag or full.partition(".")[2]
            function = _make_option(full, name, [name, *SETTINGS[full].aliases], dict(changes))(function)
        return function

    return decorate


def drop_missing(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in values.items() if value not in (None, ())}


def add_settings(job: Job, *sections: str) -> Decorator:
    """Add an option for every setting that a job takes from these sections, as `section__key` arguments."""

    def decorate(function: Any) -> Any:
        for full, setting in reversed(SETTINGS.items()):
            if full.partition(".")[0] in sections and setting.only in {None, job} and full != "source.inputs":
                first = setting.flag or full.partition(".")[2]
                others = sorted(word for word, name in list_bare_names(job).items() if name == full)
                names = dict.fromkeys([first, *others])
                function = _make_option(full, full.replace(".", "__"), list(names), {"show": True})(function)
        return function

    return decorate


def take_inputs(function: Any) -> Any:
    """Add the inputs of a job: arguments, `--dataset` as training scripts have it, and a settings file."""
    file = click.Path(exists=True, dir_okay=False)
    function = click.option("--config", "config_file", type=file, help="A YAML file of settings.")(function)
    function = click.option("--dataset", multiple=True, help="An input, like an argument.")(function)
    return click.argument("inputs", nargs=-1)(function)


def pick_given(values: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed: `{"packing__mode": "concat", …}` becomes `{"packing.mode": "concat"}`."""
    given = {name.replace("__", ".", 1): value for name, value in values.items() if "__" in name}
    return drop_missing(given | {"source.inputs": values["inputs"] + values["dataset"]})


def _make_option(full: str, name: str, words: list[str], changes: dict[str, Any]) -> Decorator:
    setting = SETTINGS[full]
    plain = split_rules(setting.annotation)[0]
    many, types = get_origin(plain) is tuple, _list_types(plain)
    flags = [f"--{word.replace('_', '-')}" for word in words]
    marks: dict[str, Any] = {"help": setting.help}
    if bool in types and str not in types:
        return click.option(f"{flags[0]}/--no-{flags[0][2:]}", name, **marks, default=None)
    flags += [_SHORT[full]] if full in _SHORT else []
    annotation = get_args(plain)[0] if many else setting.annotation
    choices = "" if str in types else "|".join(_list_words(plain))
    if len(choices) > WIDEST:
        marks["help"] += f" One of {choices.replace('|', ', ')}."
    elif choices:
        marks["metavar"] = f"[{choices}]"
    if full == "packing.mode":  # training scripts have a bare `--packing`
        marks |= {"is_flag": False, "flag_value": "concat"}
    if changes.pop("show", False):
        marks["help"] += " May be repeated." if many else ""
        if setting.default not in {None, ()}:
            shown = ", ".join(map(show_value, setting.default if many else [setting.default]))
            marks["help"] += f"  [default: {shown}]"
    return click.option(*flags, name, type=Value(annotation), multiple=many, **marks | changes)


def _list_types(annotation: Any) -> set[Any]:
    parts = get_args(annotation)
    if not parts or get_origin(annotation) is Literal:
        return {annotation} if isinstance(annotation, type) else set()
    return set().union(*(_list_types(part) for part in parts if not isinstance(part, str)))


def _list_words(annotation: Any) -> list[str]:
    """Return the words that an annotation names."""
    if get_origin(annotation) is Literal:
        return sorted(get_args(annotation))
    return sorted({word for part in get_args(annotation) for word in _list_words(part)})


class SettingsCommand(click.Command):
    """A command whose options are settings: `--help` shows the usual ones, `--help-all` every one."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return every option, with `--help-all` after `--help`."""
        return [*super().get_params(ctx), _HELP_ALL]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for an option of another tool, fail with the one that does the same."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = MEANT.get(error.option_name[2:].replace("-", "_"), "")
            flag = "--" + meant.strip("'").replace("_", "-")
            if any(flag in option.opts for option in self.params):
                words = f"No such option {error.option_name!r}. Did you mean {flag!r}?"
                raise click.UsageError(words, ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the essential settings and the command's own flags, then the settings of each section."""
        in_full = bool(ctx.meta.get(IN_FULL))
        own: list[Row] = []
        tables: dict[str, list[Row]] = {"": []}
        for option in self.get_params(ctx):
            name = (option.name or "").replace("__", ".", 1)
            setting, shown = SETTINGS.get(name), copy(option)
            if setting is not None and not in_full:
                shown.opts = [flag for flag in option.opts if flag == option.opts[0] or flag[:2] != "--"]
            if (row := shown.get_help_record(ctx)) is None or not isinstance(option, click.Option):
                continue
            if setting is None:
                own.append(row)
            elif in_full or setting.use != "rare":
                place = "" if setting.use == "first" else name.partition(".")[0]
                tables.setdefault(place, []).append(row)
        tables[""] += own
        for section, rows in tables.items():
            with formatter.section(section.capitalize() or "Options"):
                if in_full and section:
                    formatter.write_text((SECTIONS[section].__doc__ or "").partition("\n")[0])
                    formatter.write_paragraph()
                formatter.write_dl(rows)
        if not in_full:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Every other option: {ctx.command_path} --help-all")


def _show_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[IN_FULL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show every option.",
)
