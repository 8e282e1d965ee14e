"""`tokenmill plan --model`, formerly `tokenmill account`: parameters, memory and FLOPs of a transformer."""

from __future__ import annotations

import json
from dataclasses import replace

import click

EXAMPLES = """\b
Examples:
  tokenmill account --config examples/gpt2-xl.json
  tokenmill account --config model/config.json --tokens 300e9 \\
      --tokenizer my-tokenizer
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--config", "config_path", required=True, help="A model's JSON file: our keys, or an HF config.json."
)
@click.option("--context-length", type=int, help="Tokens per sequence.  [default: the model's own]")
@click.option("--tokens", type=float, help="Tokens to train on, e.g. 300e9.")
@click.option("--tokenizer", help="Take the vocabulary size from this tokenizer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    config_path: str, context_length: int | None, tokens: float | None, tokenizer: str | None, as_json: bool
) -> None:
    """Count the parameters, memory and matrix-multiply FLOPs of a transformer, per component."""
    show_cost(config_path, context_length, tokens, tokenizer, as_json=as_json)


def show_cost(
    model: str, context_length: int | None, tokens: float | None, tokenizer: str | None, *, as_json: bool
) -> None:
    """Print the cost of the model in a JSON file, as a table or as JSON."""
    from tokenmill.report.cost.cost import compute_cost
    from tokenmill.report.cost.cost_table import render
    from tokenmill.report.cost.model_shape import load_shape

    shape = load_shape(model)
    if tokenizer:
        from tokenmill.tokenizer.tokenizer import Tokenizer

        shape = replace(shape, vocab_size=Tokenizer.load(tokenizer).vocab_size)
    result = compute_cost(
        shape, context_length=context_length, tokens=None if tokens is None else int(tokens)
    )
    click.echo(json.dumps(result.to_dict(), indent=2) if as_json else render(result))
