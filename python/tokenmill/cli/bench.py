"""`tokenmill bench`: your tokenizer on your files, beside the peers that are installed."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLES = """\b
Examples:
  tokenmill bench corpus.jsonl --tokenizer my-tokenizer
  tokenmill bench corpus.jsonl.zst --tokenizer my-tokenizer --megabytes 64 \\
      --threads 8 --chart speed.svg
"""


@click.command(epilog=EXAMPLES)
@click.argument("inputs", nargs=-1, required=True)
@click.option("--tokenizer", required=True, help="A directory, a file or a hub id.")
@click.option("--megabytes", type=float, default=16, show_default=True, help="How much text to take.")
@click.option(
    "--turns", type=click.IntRange(1), default=3, show_default=True, help="Rounds; the best one counts."
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads for each.")
@click.option("--text-field", help="The column that holds the text.  [default: detected]")
@click.option("--chart", "chart_path", type=click.Path(path_type=Path, dir_okay=False), help="Write an SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    inputs: tuple[str, ...],
    tokenizer: str,
    megabytes: float,
    turns: int,
    threads: int,
    text_field: str | None,
    chart_path: Path | None,
    as_json: bool,
) -> None:
    """Encode a sample of INPUTS here and with every peer that is installed: compare ids, then speed."""
    from tokenmill.pipeline.estimate import take_sample
    from tokenmill.report.bench import bench, draw_chart
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import discover, infer_fields
    from tokenmill.tokenizer.tokenizer import Tokenizer

    source = SourceConfig(inputs=inputs, text_field=text_field)
    files = discover(source)
    source, _ = infer_fields(source, files)
    sample = take_sample(files, source, size=int(megabytes * 1e6))
    texts = [text.as_py() for block in sample.blocks for text in block]
    result = bench(Tokenizer.load(tokenizer), texts, turns=turns, threads=threads)
    if chart_path is not None:
        chart_path.write_text(draw_chart(result), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(result, indent=1))
        return
    size = f"{result['bytes'] / 1e6:.1f} MB, {result['documents']:,} documents"
    click.echo(f"{size}, {result['machine']}, {threads} thread(s)")
    click.echo(f"{'':14}{'version':>10}{'MB/s':>10}{'spread':>9}{'MB/CPU-s':>10}   we are")
    for row in result["rows"]:
        if row["same_ids"] is not True:
            words = "gives different ids: not timed" if row["same_ids"] is False else row["same_ids"]
            click.echo(f"{row['name']:14}{row['version']:>10}   {words}")
            continue
        times = f"{row['times_faster']:.1f}x as fast" if row["name"] != "tokenmill" else ""
        rates = f"{row['wall']:>10.1f}{row['spread']:>7.0f} %{row['cpu']:>10.1f}"
        click.echo(f"{row['name']:14}{row['version']:>10}{rates}   {times}")
