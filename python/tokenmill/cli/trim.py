"""`tokenmill tokenizer trim`: drop the tokens that a corpus does not need."""

from __future__ import annotations

import json
from typing import Any

import click

from tokenmill.cli.sizes import Count


@click.command(
    epilog="""\b
Examples:
  tokenmill tokenizer trim ./qwen --keep-on ko.jsonl.zst \\
      --keep-on en.jsonl.zst --size 64k -o ./qwen-64k
  tokenmill tokenizer trim ./llama3 --keep-on corpus --min-count 10 \\
      -o ./small"""
)
@click.argument("base")
@click.option("--keep-on", multiple=True, required=True, help="Texts that decide which tokens are needed.")
@click.option("--size", type=Count(), help="How many tokens to keep.")
@click.option("--min-count", type=int, help="How often a token must occur to be kept.")
@click.option("--protect", multiple=True, help="A string whose tokens are kept.")
@click.option("--pad-to-multiple", type=int, default=1, show_default=True, help="Round embedding rows up.")
@click.option("--output", "-o", type=click.Path(), required=True, help="The directory of the new tokenizer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(base: str, *, keep_on: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Drop tokens of BASE, leaf first; ids become dense, and trim.json has the map."""
    from tokenmill.vocab.trim import trim

    tokenizer = trim(base, list(keep_on), output=output, **options)
    figures, words = (
        {"output": output, "vocab_size": tokenizer.vocab_size},
        f"{tokenizer.vocab_size:,} ids are left",
    )
    click.echo(json.dumps(figures) if as_json else f"{output}: {words}")
