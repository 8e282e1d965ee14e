"""`tokenmill doctor`: look at machine, tokenizer, data and output, and say what to fix."""

from __future__ import annotations

import json
import sys

import click

from tokenmill.cli.say import say

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("problem", "red")}


@click.command(
    epilog="""\b
Examples:
  tokenmill doctor
  tokenmill doctor --tokenizer path/to/tokenizer --data 'data/*.jsonl' \\
      --output tokens
  tokenmill doctor --json | python -m json.tool"""
)
@click.option("--tokenizer", "--tokenizer_path", metavar="T", help="A tokenizer to load and compare.")
@click.option("--data", "data", multiple=True, metavar="D", help="Input files, globs or directories.")
@click.option("--output", metavar="O", help="Where a dataset would be written.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--schema", is_flag=True, help="The JSON Schema of --json.")
def command(
    tokenizer: str | None, data: tuple[str, ...], output: str | None, *, as_json: bool, schema: bool
) -> None:
    """Check this machine and set-up; exit 1 if there is a problem."""
    from tokenmill.report.doctor import Report, examine

    if schema:
        click.echo(json.dumps(Report.model_json_schema(), indent=2))
        return
    report = examine(tokenizer, data, output)
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        sys.exit(report.exit_code)
    for check in report.checks:
        word, colour = MARKS[check.status]
        say(f"{click.style(f'{word:8}', fg=colour)} {check.name:13} {check.found}")
        say(f"{'':22} {check.meaning}")
        if check.fix:
            say(f"{'':22} fix: {check.fix}")
    count = sum(check.status == "problem" for check in report.checks)
    say(f"\n{count} problem{'s' * (count != 1)}" if count else "\nno problems found")
    sys.exit(report.exit_code)
