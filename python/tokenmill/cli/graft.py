"""`tokenmill tokenizer graft`: a model's rows for another vocabulary."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill tokenizer graft ./Qwen3-0.6B ./qwen-ko --output ./Qwen3-0.6B-ko
  tokenmill tokenizer graft ./model ./small/trim.json --output ./model-small
  tokenmill tokenizer graft ./model ./qwen-ko --init weighted \\
      --embedding backbone.embed.weight -o out"""
)
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("change", metavar="MAP", type=click.Path(exists=True))
@click.option(
    "--init",
    type=click.Choice(["mean", "subword-mean", "weighted", "omp"]),
    default="subword-mean",
    show_default=True,
    help="Make a new row from all rows, the rows of its old ids, those weighted by counts, or a donor's.",
)
@click.option("--embedding", "embeddings", multiple=True, help="The name of an embedding or output tensor.")
@click.option("--donor", type=click.Path(exists=True, file_okay=False), help="A model of the new vocabulary.")
@click.option("--output", "-o", type=click.Path(), required=True, help="The directory of the new model.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    model: str,
    change: str,
    *,
    init: str,
    embeddings: tuple[str, ...],
    donor: str | None,
    output: str,
    as_json: bool,
) -> None:
    """Give MODEL (safetensors) rows for the vocabulary of MAP, which extend or trim wrote."""
    from tokenmill.vocab.graft import graft_model
    from tokenmill.vocab.maps import load_map

    done = graft_model(
        Path(model),
        load_map(change),
        Path(output),
        init=init,  # type: ignore[arg-type]
        embeddings=embeddings,
        donor=None if donor is None else Path(donor),
    )
    if as_json:
        click.echo(json.dumps(done, ensure_ascii=False))
        return
    for name, rows in done["tensors"].items():
        click.echo(f"{name}: {rows:,} -> {done['rows']:,} rows")
    click.echo(f"{output}: {done['new']:,} new rows by {init}")
    if not done["tokenizer"]:
        click.echo("There is no tokenizer beside the map, so the output has none; copy the new one there.")
