"""`tokenmill dataset lock`: what a dataset was made from, by hash."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset lock out
  tokenmill dataset lock out --output corpus.lock --json"""
)
@click.argument("dataset", type=click.Path())
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    help="Where to write it.  [default: beside the manifest]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(dataset: str, *, output: str | None, as_json: bool) -> None:
    """Write tokenmill.lock: inputs by hash, settings, tokenizer, versions and the hash of every file."""
    from tokenmill.datasets.ledger.lock import load_lock
    from tokenmill.pipeline.lock import lock

    path = lock(dataset, output)
    made = load_lock(path)
    figures = {"lock": str(path), "inputs": len(made.inputs), "content_hash": made.content_hash}
    figures |= {"shards": len(made.shards), "versions": made.versions}
    words = f"{path}: {len(made.inputs):,} inputs, {len(made.shards):,} shards, {made.content_hash}"
    click.echo(json.dumps(figures) if as_json else words)
