"""`tokenmill tokenizer sizes`: what each vocabulary size gains."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tokenmill.cli.sizes import Count


@click.command(
    epilog="""\b
Examples:
  tokenmill tokenizer sizes en.parquet ko.parquet --sizes 16k,32k,64k,128k
  tokenmill tokenizer sizes counts.parquet --sizes 32k,64k \\
      --model examples/gpt2-xl.json --page sizes.html"""
)
@click.argument("counts", nargs=-1, required=True)
@click.option("--sizes", required=True, help="Vocabulary sizes, e.g. 16k,32k,64k,128k.")
@click.option("--model", type=click.Path(exists=True, dir_okay=False), help="A model's shape, for its cost.")
@click.option("--base", help="A tokenizer; measure its extensions.")
@click.option("--page", type=click.Path(), help="Write the curve as an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    counts: tuple[str, ...],
    *,
    sizes: str,
    model: str | None,
    base: str | None,
    page: str | None,
    as_json: bool,
) -> None:
    """Compare bytes per token at several sizes, from COUNTS that `train --save-counts` wrote."""
    from tokenmill.report.cost import load_shape
    from tokenmill.report.sizes import measure_sizes, render, write_page
    from tokenmill.tokenizer.tokenizer import Tokenizer

    wanted = [Count().convert(size, None, None) for size in sizes.split(",") if size]
    result = measure_sizes(
        counts,
        wanted,
        shape=None if model is None else load_shape(model),
        base=None if base is None else Tokenizer.load(base),
    )
    if page is not None:
        write_page(result, Path(page))
    click.echo(json.dumps(result) if as_json else render(result))
