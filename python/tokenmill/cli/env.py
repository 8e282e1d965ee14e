"""`tokenmill config env`: export lines for this machine, each with its reason."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tokenmill.settings.describe import Profile


@click.command(
    epilog="""\b
Examples:
  eval "$(tokenmill config env)"
  tokenmill config env --profile laptop
  tokenmill config env --json"""
)
@click.option(
    "--profile",
    type=click.Choice(["auto", "server", "workstation", "laptop"]),
    default="auto",
    show_default=True,
    help="How much of the machine is yours; auto goes by cores and memory.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(profile: Profile, *, as_json: bool) -> None:
    """Print export lines for this machine, for eval, with the reason for each as a comment."""
    from tokenmill.base.hardware.machine import measure
    from tokenmill.settings.describe import choose_profile, list_exports

    machine = measure(os.environ)
    lines = list_exports(machine, profile)
    chosen = choose_profile(machine) if profile == "auto" else profile
    if as_json:
        click.echo(json.dumps({"profile": chosen, "exports": [line._asdict() for line in lines]}, indent=2))
        return
    click.echo(f'# profile {chosen}; use it with: eval "$(tokenmill config env --profile {chosen})"')
    for line in lines:
        click.echo(str(line))
