"""`tokenmill quickstart`: the whole way on a bundled sample."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

EXAMPLES = """\b
Examples:
  tokenmill quickstart
  tokenmill quickstart --output somewhere --json
"""


@click.command(epilog=EXAMPLES)
@click.option("--output", default="quickstart", show_default=True, help="Where to put the results.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; the steps go to stderr.")
def command(output: str, as_json: bool) -> None:
    """Train a small tokenizer on a bundled sample, prepare the sample, open it and write a report."""
    from tokenmill.jobs.quickstart import CONTEXT_LENGTH, quickstart

    done = quickstart(output, lambda line: click.echo(line, err=as_json))
    if as_json:
        click.echo(json.dumps(asdict(done), indent=1, ensure_ascii=False, default=str))
        return
    counts = f"{done.documents:,} documents, {done.tokens:,} tokens, {done.rows:,} rows of {CONTEXT_LENGTH}"
    click.echo(f"\n{counts}.")
    click.echo(f"The first document begins: {done.first_document[:60]!r}")
    click.echo(f"\nThe report:      tokenmill dataset report {done.dataset} --open     ({done.report})")
    click.echo(f"The playground:  tokenmill serve {output} --open")
