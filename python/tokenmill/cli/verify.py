"""`tokenmill dataset verify`: is this dataset what it says?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset verify out
  tokenmill dataset verify out --sample 4 --tokenizer ./tok
  tokenmill dataset verify out --sample 0 --json"""
)
@click.argument("dataset", type=click.Path())
@click.option(
    "--sample", default=1, show_default=True, help="Shards to make again from the sources and compare."
)
@click.option("--tokenizer", help="The tokenizer, if it is no longer where the manifest says.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(dataset: str, *, sample: int, tokenizer: str | None, as_json: bool) -> None:
    """Check hashes, counts, index bounds, every id, and a sample made again from the sources.

    The exit code is 0 if all is well and 1 if anything is wrong.
    """
    from tokenmill.errors import EXIT_FAILED
    from tokenmill.pipeline.verify import verify_dataset
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer) if tokenizer else None
    checks = []
    for check in verify_dataset(dataset, sample=sample, tokenizer=loaded):
        checks.append(check)
        if not as_json and check.state != "ok":
            click.echo(f"{check.state:<8} {check.name}: {check.detail}")
    problems = sum(check.state == "problem" for check in checks)
    if as_json:
        report = {"dataset": dataset, "ok": not problems, "checks": [asdict(check) for check in checks]}
        click.echo(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        good = sum(check.state == "ok" for check in checks)
        click.echo(
            f"{dataset}: {good} checks ok, {problems} problems, {len(checks) - good - problems} skipped"
        )
    if problems:
        sys.exit(EXIT_FAILED)
