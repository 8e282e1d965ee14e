"""`tokenmill quickstart`: all steps on a bundled sample."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

import click

from tokenmill.cli.options import command, say

SAMPLE = Path(__file__).parents[1] / "data" / "sample.jsonl"
VOCAB_SIZE = 2000
CONTEXT_LENGTH = 256


@command("tokenmill quickstart", "tokenmill quickstart --output somewhere")
@click.option("--output", default="quickstart", show_default=True, help="The directory for the results.")
def quickstart(output: str) -> None:
    """Train a small tokenizer on a bundled sample, prepare the sample, open it and write a report."""
    from tokenmill.pipeline.prepare import prepare
    from tokenmill.pipeline.train import train
    from tokenmill.report.training import REPORT_HTML

    tokenizer_dir, dataset_dir = Path(output) / "tokenizer", Path(output) / "dataset"
    say(f"1/3  train a vocabulary of {VOCAB_SIZE:,} on {SAMPLE.name}")
    tokenizer = train([str(SAMPLE)], VOCAB_SIZE, output=tokenizer_dir, verbose_level="WARNING")
    say(f"2/3  prepare it into {dataset_dir}")
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
    say("3/3  open it and cut rows")
    rows = dataset.rows(context_length=CONTEXT_LENGTH)
    first = tokenizer.decode(dataset[0].tolist(), skip_special_tokens=True)
    own, page = f"{quote(sys.executable)} -m tokenmill", dataset_dir / REPORT_HTML
    say(
        f"\n{len(dataset):,} documents, {dataset.num_tokens:,} tokens, "
        f"{len(rows):,} rows of {CONTEXT_LENGTH}.\n"
        f"The first document begins:\n{first[:30]!r}\n\n"
        f"The report:      {own} dataset report {quote(str(dataset_dir))} --open     ({page})\n"
        f"The playground:  {own} serve {quote(output)} --open"
    )
