"""`tokenmill dataset rebuild`: a dataset again, from its lock."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset rebuild out/tokenmill.lock --output again
  tokenmill dataset rebuild corpus.lock --output again \\
      --inputs /data/corpus --tokenizer ./tok"""
)
@click.argument("lock", type=click.Path(exists=True, dir_okay=False))
@click.option("--output", "-o", type=click.Path(file_okay=False), required=True, help="The new dataset.")
@click.option("--inputs", type=click.Path(exists=True, file_okay=False), help="Where the inputs are now.")
@click.option("--tokenizer", help="The tokenizer, if it has moved.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(lock: str, *, output: str, inputs: str | None, tokenizer: str | None, as_json: bool) -> None:
    """Make the dataset of LOCK again: the same bytes, or a list of what has changed."""
    from tokenmill.pipeline.rebuild import rebuild

    made = rebuild(lock, output, inputs=inputs, tokenizer=tokenizer)
    figures = {"output": output, "documents": len(made), "content_hash": made.content_hash, "same": True}
    words = f"{output}: {len(made):,} documents, the same bytes as the lock ({made.content_hash})"
    click.echo(json.dumps(figures) if as_json else words)
