"""`tokenmill dataset report`: the report of a run, again; or two runs compared."""

from __future__ import annotations

import json

import click

EXAMPLES = """\b
Examples:
  tokenmill dataset report quickstart/dataset --open
  tokenmill dataset report s3://bucket/tokens
  tokenmill dataset report run-a run-b --output comparison.html
"""


@click.command(epilog=EXAMPLES)
@click.argument("directories", nargs=-1, required=True)
@click.option(
    "--output", default="comparison.html", show_default=True, help="Where a comparison of two runs goes."
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the report's data instead of a path.")
def command(directories: tuple[str, ...], output: str, open_browser: bool, as_json: bool) -> None:
    """Write report.html and report.json of one run again, or compare two runs on one page."""
    from tokenmill.datasets.store.store import read_file
    from tokenmill.report.report import REPORT_JSON, compare, publish_report, write_comparison

    if len(directories) > 2:
        raise click.UsageError(
            f"got {len(directories)} directories; expected one to report on, or two to compare"
        )
    if len(directories) == 2:
        page = str(write_comparison(*directories, output))
        data = json.dumps(compare(*directories), indent=2, ensure_ascii=False) if as_json else ""
    else:
        page = publish_report(directories[0])
        data = (read_file(directories[0], REPORT_JSON) or b"").decode() if as_json else ""
    click.echo(data or page)
    if open_browser:
        click.launch(page)
