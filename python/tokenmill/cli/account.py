"""`tokenmill plan --model`: parameters, memory and FLOPs of a transformer."""

from __future__ import annotations

import json

import click


def show_cost(
    model: str, context_length: int | None, tokens: float | None, tokenizer: str | None, *, as_json: bool
) -> None:
    """Print the cost of the model in a JSON file, as a table or as JSON."""
    from tokenmill.report.cost import compute_cost, load_shape, render

    shape = load_shape(model)
    if tokenizer:
        from tokenmill.tokenizer.tokenizer import Tokenizer

        shape = shape.model_copy(update={"vocab_size": Tokenizer.load(tokenizer).vocab_size})
    result = compute_cost(
        shape, context_length=context_length, tokens=None if tokens is None else int(tokens)
    )
    click.echo(json.dumps(result.to_dict(), indent=2) if as_json else render(result))
