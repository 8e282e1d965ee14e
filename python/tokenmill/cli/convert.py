"""`tokenmill tokenizer convert`: save a tokenizer in another format."""

from __future__ import annotations

import json
from typing import get_args

import click

from tokenmill.settings.section import SaveFormat


@click.command(
    epilog="""\b
Examples:
  tokenmill tokenizer convert cl100k_base.tiktoken ./cl100k --format hf
  tokenmill tokenizer convert ./tok tok.tiktoken --format tiktoken
  tokenmill tokenizer convert tokenizer.model ./llama --format hf --json"""
)
@click.argument("source")
@click.argument("target", type=click.Path())
@click.option("--format", "kind", type=click.Choice(get_args(SaveFormat)), default="hf", show_default=True)
@click.option("--pattern", help="Split pattern, for files that have none.")
@click.option("--check/--no-check", default=True, show_default=True, help="Load the result and compare.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    source: str, target: str, *, kind: SaveFormat, pattern: str | None, check: bool, as_json: bool
) -> None:
    """Load SOURCE, whatever it is, and save it as TARGET."""
    from tokenmill.tokenizer.parity import check_conversion
    from tokenmill.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(source, pattern=pattern)
    tokenizer.save(target, kind)
    compared = check_conversion(tokenizer, target, kind) if check else 0
    report = {"source": source, "target": target, "format": kind, "compared": compared}
    same = f"; {compared} texts encode the same" if check else ""
    words = f"{target}: {tokenizer.vocab_size:,} ids as {kind}{same}"
    click.echo(json.dumps(report, ensure_ascii=False) if as_json else words)
