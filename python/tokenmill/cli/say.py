"""Output for people, folded between words where a terminal would cut them."""

from __future__ import annotations

import sys

import click

from tokenmill.base.console.folding import fold_for


def say(text: str = "", *, err: bool = False) -> None:
    """`click.echo`, in lines that fit the terminal; a pipe gets every line whole."""
    click.echo(fold_for(sys.stderr if err else sys.stdout, text), err=err)
