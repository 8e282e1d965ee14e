"""`tokenmill quickstart`: all steps on a bundled sample."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from shutil import which

import click

from tokenmill.cli.options import command, say, show
from tokenmill.errors import MissingExtraError

SAMPLE = Path(__file__).parents[1] / "data" / "sample.jsonl"
VOCAB_SIZE = 2000
CONTEXT_LENGTH = 256


@command("tokenmill quickstart", "tokenmill quickstart --output somewhere --json")
@click.option("--output", default="quickstart", show_default=True, help="The directory for the results.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; the steps go to stderr.")
def quickstart(output: str, *, as_json: bool) -> None:
    """Train a small tokenizer on a bundled sample, prepare the sample, open it and write a report."""
    from tokenmill.pipeline.prepare import prepare
    from tokenmill.pipeline.train import train
    from tokenmill.report.dataset import REPORT_HTML

    tokenizer_dir, dataset_dir = Path(output) / "tokenizer", Path(output) / "dataset"
    say(f"1/4  train a vocabulary of {VOCAB_SIZE:,} on {SAMPLE.name}", err=as_json)
    tokenizer = train([str(SAMPLE)], VOCAB_SIZE, output=tokenizer_dir, verbose_level="WARNING")
    say(f"2/4  prepare it into {dataset_dir}", err=as_json)
    dataset = prepare(
        inputs=[str(SAMPLE)],
        tokenizer=str(tokenizer_dir),
        output=str(dataset_dir),
        # Without the extra hf, the comparison would only log a warning.
        verbose_level="ERROR",
        show_progress=False,
        provenance=True,
        id_field="id",
    )
    say("3/4  open it and cut rows", err=as_json)
    rows = dataset.rows(context_length=CONTEXT_LENGTH)
    first = tokenizer.decode(dataset[0].tolist(), skip_special_tokens=True)
    say("4/4  read the report", err=as_json)
    figures = {
        "tokenizer": str(tokenizer_dir),
        "dataset": str(dataset_dir),
        "report": str(dataset_dir / REPORT_HTML),
        "documents": len(dataset),
        "tokens": dataset.num_tokens,
        "rows": len(rows),
        "first_document": first,
    }
    # The path of this installation, unless it is on the PATH.
    script = Path(sys.argv[0]).absolute()
    found = which("tokenmill")
    own = f"{quote(sys.executable)} -m tokenmill"
    if found is not None and Path(found).parent.resolve() in {script.parent, Path(sys.executable).parent}:
        own = "tokenmill"
    counts = f"{len(dataset):,} documents, {dataset.num_tokens:,} tokens, {len(rows):,} rows"
    page = dataset_dir / REPORT_HTML
    lines = [
        f"\n{counts} of {CONTEXT_LENGTH}.",
        f"The first document begins: {first[:60]!r}",
        f"\nThe report:      {own} dataset report {quote(str(dataset_dir))} --open     ({page})",
    ]
    if not all(find_spec(package) for package in ("starlette", "uvicorn")):
        lines.append(f"First, install:  {MissingExtraError.of('starlette', 'web', 'tokenmill serve').remedy}")
    lines.append(f"The playground:  {own} serve {quote(output)} --open")
    show(figures, "\n".join(lines), as_json=as_json)
