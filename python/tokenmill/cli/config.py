"""`tokenmill config init|show|env`: write and explain a settings file, and show origins of values."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from tokenmill.cli.options import command, json_option
from tokenmill.errors import ConfigError


@command("tokenmill config init job.yaml", "tokenmill config init job.yaml --force")
@click.argument("path", default="tokenmill.yaml")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(path: str, *, force: bool) -> None:
    """Write a commented settings file to PATH (default tokenmill.yaml)."""
    from tokenmill.settings.describe import make_template

    target = Path(path)
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(make_template(target.name))
    except FileExistsError:
        raise ConfigError(f"{target} already exists; overwrite it with --force") from None
    click.echo(f"wrote {target}; next: edit it, then tokenmill prepare --config {target}")


@command(
    "tokenmill config show job.yaml --set context_length=2048 --all",
    "DATASET_NUM_PROC=16 tokenmill config show --json",
)
@click.argument("file", required=False)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a value as a flag would.")
@click.option("--all", "everything", is_flag=True, help="Also show defaults.")
@json_option
def show(file: str | None, settings: tuple[str, ...], *, everything: bool, as_json: bool) -> None:
    """Print each value and its origin: flag, environment, file, automatic or default."""
    from tokenmill.settings.resolve import resolve

    resolved = resolve(file, dict(map(_parse_pair, settings)))
    rows = [
        {"name": name, "value": resolved.value(name), "origin": origin.kind, "place": origin.place}
        for name, origin in resolved.origins.items()
    ]
    if as_json:
        click.echo(json.dumps({"settings": rows, "warnings": list(resolved.warnings)}, indent=2))
        return
    for row in rows:
        if everything or row["origin"] != "default":
            value = "automatic" if row["value"] is None else json.dumps(row["value"])
            origin = row["origin"] + (f": {row['place']}" if row["place"] else "")
            click.echo(f"{row['name']:32} {value:28} {origin}")
    for warning in resolved.warnings:
        click.echo(f"warning: {warning}", err=True)


def _parse_pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text}: expected KEY=VALUE, e.g. --set num_proc=8")
    return key.strip(), value.strip()


@command('eval "$(tokenmill config env)"')
def env() -> None:
    """Print export lines for this machine, for eval, with the reason for each as a comment."""
    from tokenmill.base.machine import measure
    from tokenmill.settings.describe import list_exports

    click.echo("\n".join(map(str, list_exports(measure(os.environ)))))
