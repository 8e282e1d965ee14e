"""`tokenmill dataset convert`: the same tokens in another format."""

from __future__ import annotations

import json
from typing import get_args

import click

from tokenmill.settings.section import OutputFormat


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset convert out out-megatron --format megatron
  tokenmill dataset convert out out-arrow --format arrow --dtype int32"""
)
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.argument("target", type=click.Path(file_okay=False))
@click.option(
    "--format",
    "output_format",
    type=click.Choice(get_args(OutputFormat)),
    required=True,
    help="The new layout.",
)
@click.option(
    "--dtype", default="auto", show_default=True, help="uint16, uint32, int32, int64, or the smallest."
)
@click.option("--lossy", is_flag=True, help="Leave out what the new format has no place for.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(source: str, target: str, *, output_format: str, dtype: str, lossy: bool, as_json: bool) -> None:
    """Rewrite the dataset SOURCE as TARGET in another format; refuse if that would lose anything."""
    from tokenmill.pipeline.convert import convert_dataset

    manifest = convert_dataset(source, target, output_format, dtype=dtype, lossy=lossy)
    shards, kind = len(manifest.shards), {"format": manifest.format, "dtype": manifest.dtype}
    counts = {"tokens": manifest.tokens, "shards": shards, "content_hash": manifest.content_hash}
    words = f"{manifest.tokens:,} tokens as {manifest.format} ({manifest.dtype}), {shards} shards"
    click.echo(json.dumps({"path": target} | kind | counts) if as_json else f"{target}: {words}")
