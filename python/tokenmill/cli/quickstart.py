"""`tokenmill quickstart`: all the steps on a bundled sample."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import click

from tokenmill.base.words import quote
from tokenmill.cli.options import command, say, show
from tokenmill.errors import MissingExtraError


@command("tokenmill quickstart", "tokenmill quickstart --output somewhere --json")
@click.option("--output", default="quickstart", show_default=True, help="Where to put the results.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; the steps go to stderr.")
def quickstart(output: str, *, as_json: bool) -> None:
    """Train a small tokenizer on a bundled sample, prepare the sample, open it and write a report."""
    from tokenmill.pipeline.quickstart import CONTEXT_LENGTH, quickstart

    done = quickstart(output, lambda line: say(line, err=as_json))
    # The path of this very installation, unless the shell finds it by its name.
    script = Path(sys.argv[0]).absolute()
    found = which("tokenmill")
    own = f"{quote(sys.executable)} -m tokenmill"
    if found is not None and Path(found).parent.resolve() in {script.parent, Path(sys.executable).parent}:
        own = "tokenmill"
    lines = [
        f"\n{done.documents:,} documents, {done.tokens:,} tokens, {done.rows:,} rows of {CONTEXT_LENGTH}.",
        f"The first document begins: {done.first_document[:60]!r}",
        f"\nThe report:      {own} dataset report {quote(str(done.dataset))} --open     ({done.report})",
    ]
    if not all(find_spec(package) for package in ("starlette", "uvicorn")):
        lines.append(f"First, install:  {MissingExtraError.of('starlette', 'web', 'tokenmill serve').remedy}")
    lines.append(f"The playground:  {own} serve {quote(output)} --open")
    figures = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(done).items()}
    show(figures, "\n".join(lines), as_json=as_json)
