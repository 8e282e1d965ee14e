"""`tokenmill dataset transcode`: a dataset's ids for another tokenizer, without the raw text."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset transcode ./data --tokenizer ./qwen-ko \\
      --output ./data-ko
  tokenmill dataset transcode ./data --tokenizer ./new \\
      --old-tokenizer ./old -o ./data-new --json"""
)
@click.argument("dataset", type=click.Path(exists=True, file_okay=False))
@click.option("--tokenizer", "-t", required=True, help="The new tokenizer.")
@click.option("--old-tokenizer", help="The tokenizer of DATASET, if it has moved.")
@click.option("--output", "-o", type=click.Path(), required=True, help="The directory of the new dataset.")
@click.option("--threads", type=int, help="Threads for encoding.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    dataset: str,
    *,
    tokenizer: str,
    old_tokenizer: str | None,
    output: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Encode the documents of DATASET again; the result is what preparing the raw text would give."""
    from tokenmill.pipeline.transcode import transcode

    options = {} if threads is None else {"threads": threads}
    made = transcode(dataset, tokenizer, output, old_tokenizer=old_tokenizer, **options)
    figures = {"output": output, "documents": made.num_documents, "tokens": made.num_tokens}
    words = f"{output}: {made.num_documents:,} documents, {made.num_tokens:,} tokens"
    click.echo(json.dumps(figures | {"content_hash": made.content_hash}) if as_json else words)
