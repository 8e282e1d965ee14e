"""`tokenmill report`: the report of a run, again; or two runs compared."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLES = """\b
Examples:
  tokenmill report quickstart/dataset --open
  tokenmill report run-a run-b --output comparison.html
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
    from tokenmill.insight.report import REPORT_JSON, compare, write_comparison, write_report

    if len(directories) > 2:
        raise click.UsageError(
            f"got {len(directories)} directories; expected one to report on, or two to compare"
        )
    if len(directories) == 2:
        page = write_comparison(*directories, output)
        data = json.dumps(compare(*directories), indent=2, ensure_ascii=False) if as_json else ""
    else:
        page = write_report(directories[0])
        data = (Path(directories[0]) / REPORT_JSON).read_text(encoding="utf-8") if as_json else ""
    click.echo(data or str(page))
    if open_browser:
        click.launch(str(page))
