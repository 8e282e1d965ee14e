"""`tokenmill quickstart`: the whole way on a bundled sample."""

from __future__ import annotations

import click

EXAMPLES = """\b
Examples:
  tokenmill quickstart
  tokenmill quickstart --output somewhere
"""


@click.command(epilog=EXAMPLES)
@click.option("--output", default="quickstart", show_default=True, help="Where to put the results.")
def command(output: str) -> None:
    """Train a small tokenizer on a bundled sample, prepare the sample, open it and write a report."""
    from tokenmill.jobs.quickstart import quickstart

    done = quickstart(output, click.echo)
    click.echo(f"\n{done.documents:,} documents, {done.tokens:,} tokens, {done.rows:,} rows of 256.")
    click.echo(f"The first document begins: {done.first_document[:60]!r}")
    click.echo(f"\nThe report:      tokenmill report {done.dataset} --open     ({done.report})")
    click.echo(f"The playground:  tokenmill serve {output} --open")
