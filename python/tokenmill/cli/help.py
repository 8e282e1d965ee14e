"""`--help` of a command that takes settings: the few that everybody needs, then some of each section.

`--help-all` has every one. The `use` of a setting in the schema says where it is shown.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import click

from tokenmill.settings.schema import SECTIONS, SETTINGS

if TYPE_CHECKING:
    from tokenmill.settings.section import Use

# The key in a context's `meta` that says to show every option.
IN_FULL = "tokenmill.help.in_full"
Row = tuple[str, str]


class SettingsCommand(click.Command):
    """A command whose options are settings of the schema, and some flags of its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Every option, and `--help-all` beside `--help`."""
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What everybody needs and the command's own flags, then the settings of each section."""
        in_full = bool(ctx.meta.get(IN_FULL))
        first: list[Row] = []
        own: list[Row] = []
        sections: dict[str, list[Row]] = {}
        for option in self.get_params(ctx):
            if (
                not isinstance(option, click.Option)
                or (row := _format_option(option, ctx, in_full=in_full)) is None
            ):
                continue
            section, use = _find_section(option)
            if not section:
                own.append(row)
            elif use == "first":
                first.append(row)
            elif in_full or use == "often":
                sections.setdefault(section, []).append(row)
        with formatter.section("Options"):
            formatter.write_dl(_break_wide_rows([*first, *own], formatter))
        for section, rows in sections.items():
            _write_section(formatter, section, rows, explain=in_full)
        if not in_full:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Every other option: {ctx.command_path} --help-all")


def _format_option(option: click.Option, ctx: click.Context, *, in_full: bool) -> Row | None:
    """How an option is written and what it does; only the full help has its other spellings."""
    setting = SETTINGS.get(_name_setting(option))
    shown = copy(option)
    if setting is not None:
        hidden = set() if in_full else {name for name in option.opts[1:] if name.startswith("--")}
        shown.opts = [name for name in option.opts if name not in hidden]
    return shown.get_help_record(ctx)


def _name_setting(option: click.Option) -> str:
    return (option.name or "").replace("__", ".", 1)


def _find_section(option: click.Option) -> tuple[str, Use]:
    """`packing__context_length` -> `("packing", "first")`; no section for a flag that is not a setting."""
    setting = SETTINGS.get(name := _name_setting(option))
    return ("", "first") if setting is None else (name.partition(".")[0], setting.use)


def _write_section(formatter: click.HelpFormatter, section: str, rows: list[Row], *, explain: bool) -> None:
    with formatter.section(section.capitalize()):
        if explain:
            formatter.write_text((SECTIONS[section].__doc__ or "").partition("\n")[0])
            formatter.write_paragraph()
        formatter.write_dl(_break_wide_rows(rows, formatter))


def _break_wide_rows(rows: list[Row], formatter: click.HelpFormatter) -> list[Row]:
    """Put the values of an option on the next line if they make its own too wide, as click does not."""
    room = formatter.width - formatter.current_indent
    indent = " " * (formatter.current_indent + 4)
    return [
        (name.replace(" [", f"\n{indent}[", 1) if len(name) > room else name, text) for name, text in rows
    ]


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
    help="Show every option and exit.",
)
