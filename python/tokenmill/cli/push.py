"""`tokenmill dataset push`: a dataset to the Hugging Face hub."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset push out my-org/my-tokens
  tokenmill dataset push out my-org/my-tokens --private"""
)
@click.argument("dataset", type=click.Path(exists=True, file_okay=False))
@click.argument("name")
@click.option("--private", is_flag=True, help="Only you and your organisation may read it.")
@click.option("--revision", help="The branch to push to; main if left out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(dataset: str, name: str, *, private: bool, revision: str | None, as_json: bool) -> None:
    """Upload DATASET to the hub as NAME (ORG/NAME), with a card that says what is in it."""
    from tokenmill.pipeline.push import push_dataset

    url = push_dataset(dataset, name, private=private, revision=revision)
    click.echo(json.dumps({"dataset": dataset, "name": name, "commit": url}) if as_json else f"{name}: {url}")
