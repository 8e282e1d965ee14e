"""`tokenmill dataset blend`: the data path list and the sequences file that Megatron takes."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset blend web code                         # by tokens
  tokenmill dataset blend web=0.7 code=0.3 --output blend.txt \\
      --sequences sequences.json"""
)
@click.argument("datasets", nargs=-1, required=True)
@click.option("--output", type=click.Path(dir_okay=False), help="A file for the list; stdout if left out.")
@click.option(
    "--sequences", type=click.Path(dir_okay=False), help="A JSON file for --per-dataset-sequences-path."
)
@click.option("--json", "as_json", is_flag=True, help="Weights and sequences as one JSON object.")
def command(datasets: tuple[str, ...], *, output: str | None, sequences: str | None, as_json: bool) -> None:
    """Write the data path list of DATASETS (each may be DATASET=SHARE), as --data-path takes it."""
    from tokenmill.pipeline.blend import blend

    made = blend([_read_share(each) for each in datasets])
    if sequences is not None:
        Path(sequences).write_text(json.dumps(made.sequences, indent=1) + "\n", encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"weights": made.weights, "sequences": made.sequences}))
    elif output is None:
        click.echo(made.to_data_path())
    else:
        Path(output).write_text(made.to_data_path() + "\n", encoding="utf-8")


def _read_share(text: str) -> tuple[str, float | None]:
    path, sign, share = text.rpartition("=")
    if not sign or Path(text).exists():
        return text, None
    try:
        return path, float(share)
    except ValueError:
        raise click.BadParameter(f"{text!r}: the share {share!r} is not a number") from None
