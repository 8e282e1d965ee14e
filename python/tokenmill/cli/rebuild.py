"""`tokenmill dataset rebuild`: prepare a dataset again and compare the hashes."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset rebuild out --output again
  tokenmill dataset rebuild out --output again \\
      --inputs /data/corpus --tokenizer ./tok"""
)
@click.argument("dataset", type=click.Path())
@click.option("--output", "-o", type=click.Path(file_okay=False), required=True, help="The new dataset.")
@click.option("--inputs", type=click.Path(exists=True, file_okay=False), help="Where the inputs are now.")
@click.option("--tokenizer", help="The tokenizer, if it has moved.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(dataset: str, *, output: str, inputs: str | None, tokenizer: str | None, as_json: bool) -> None:
    """Prepare DATASET again with its own settings, and check that every byte is the same."""
    from tokenmill.pipeline.rebuild import rebuild

    made = rebuild(dataset, output, inputs=inputs, tokenizer=tokenizer)
    figures = {"output": output, "documents": len(made), "content_hash": made.content_hash, "same": True}
    words = f"{output}: {len(made):,} documents, the same bytes as {dataset} ({made.content_hash})"
    click.echo(json.dumps(figures) if as_json else words)
