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
    from tokenmill.jobs.prepare.unit_range import commit_directory

    outcome = commit_directory(directory)
    manifest = outcome.manifest
    figures = {
        "units": outcome.units,
        "documents": manifest.documents if manifest else None,
        "tokens": manifest.tokens if manifest else None,
        "content_hash": manifest.content_hash if manifest else None,
    }
    if as_json:
        click.echo(json.dumps(figures, indent=1))
        return
    counts = f"{figures['documents']:,} documents, {figures['tokens']:,} tokens"
    click.echo(f"{directory}: {counts}, {outcome.units} units")
