"""`tokenmill dataset remove`: a dataset minus some documents."""

from __future__ import annotations

import json

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset remove out --documents takedown.txt --output out-2
  tokenmill dataset remove out --documents leaked.jsonl --output clean \\
      --tokenizer ./tok --json"""
)
@click.argument("dataset", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--documents",
    type=click.Path(exists=True, dir_okay=False),
    required=True,
    help="A document on each line: FILE:ROW, or JSON with document, id, contains, or file and row.",
)
@click.option("--output", "-o", type=click.Path(file_okay=False), required=True, help="The new dataset.")
@click.option("--tokenizer", help="The tokenizer, if it is no longer where the manifest says.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(dataset: str, *, documents: str, output: str, tokenizer: str | None, as_json: bool) -> None:
    """Write DATASET without some documents, by rewriting only the shards that had them."""
    from tokenmill.datasets.reader.dataset import open_dataset
    from tokenmill.pipeline.remove import remove
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer) if tokenizer else None
    before = open_dataset(dataset)
    made = remove(dataset, documents, output, tokenizer=loaded)
    names = {shard.name for shard in before.manifest.shards}
    written = sum(shard.name not in names for shard in made.manifest.shards)
    gone, tokens = len(before) - len(made), before.num_tokens - made.num_tokens
    reasons = made.manifest.account.documents_dropped - before.manifest.account.documents_dropped
    if as_json:
        figures = {"output": output, "documents": len(made), "tokens": made.num_tokens, "removed": gone}
        more = {"shards_written": written, "reasons": dict(reasons), "content_hash": made.content_hash}
        click.echo(json.dumps(figures | more, ensure_ascii=False))
        return
    why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()))
    click.echo(
        f"{output}: {len(made):,} documents, {made.num_tokens:,} tokens; {gone:,} documents and {tokens:,} "
        f"tokens fewer ({why}), {written:,} of {len(made.manifest.shards):,} shards rewritten"
    )
