"""`tokenmill dataset commit`: publish the manifest of a job whose units are all done."""

from __future__ import annotations

import json

import click

EXAMPLES = """\b
Examples:
  tokenmill prepare data --tokenizer ./tok --output out --unit-range 0/2
  tokenmill prepare data --tokenizer ./tok --output out --unit-range 1/2
  tokenmill dataset commit out
"""


@click.command(epilog=EXAMPLES)
@click.argument("directory")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(directory: str, as_json: bool) -> None:
    """Publish the manifest of DIRECTORY if every unit has its receipt; otherwise say which are missing."""
    from tokenmill.pipeline.commit import commit_directory

    manifest = commit_directory(directory)
    units, documents, tokens = len(manifest.shards), manifest.documents, manifest.tokens
    figures = {
        "units": units,
        "documents": documents,
        "tokens": tokens,
        "content_hash": manifest.content_hash,
    }
    words = f"{directory}: {documents:,} documents, {tokens:,} tokens, {units} units"
    click.echo(json.dumps(figures, indent=1) if as_json else words)
