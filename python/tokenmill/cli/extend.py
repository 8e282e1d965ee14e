"""`tokenmill tokenizer extend`: new tokens after all the old ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tokenmill.cli.sizes import Count, Share, Size


def _read_lines(path: Path) -> list[str]:
    from tokenmill.errors import InputError

    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 at byte {error.start:,}; write it in UTF-8, one string per line"
        ) from error


@click.command(
    epilog="""\b
Examples:
  tokenmill tokenizer extend ./qwen ko.jsonl.zst --add 16000 \\
      --only-script Hangul -o ./qwen-ko
  tokenmill tokenizer extend ./qwen ko.jsonl.zst --add 16k \\
      --keep-ids en.jsonl.zst -o ./qwen-ko
  tokenmill tokenizer extend ./llama3 zh.parquet --add 8000 \\
      --reuse-reserved --pad-to-multiple 64 -o out"""
)
@click.argument("base")
@click.argument("inputs", nargs=-1)
@click.option("--add", type=Count(), required=True, help="How many tokens to add.")
@click.option("--output", "-o", type=click.Path(), required=True, help="The directory of the new tokenizer.")
@click.option("--only-script", multiple=True, help="Letters of new tokens are all of these scripts.")
@click.option("--keep-ids", multiple=True, help="Files whose documents must keep exactly their ids.")
@click.option(
    "--keep-ids-budget", type=Share(), default=0.0, help="The share of them that may change, e.g. 0.1%."
)
@click.option(
    "--require",
    type=click.Path(exists=True, dir_okay=False),
    help="Strings that must be one token, one per line.",
)
@click.option("--counts", multiple=True, help="Saved counts, with a weight: ko.parquet:2.0.")
@click.option("--min-frequency", type=int, default=2, show_default=True, help="Rarer pairs are not merged.")
@click.option("--max-token-length", type=int, help="The most bytes that a new token may have.")
@click.option("--tie-break", type=click.Choice(["huggingface", "lexicographic"]), default="huggingface")
@click.option("--reuse-reserved", is_flag=True, help="Take the ids of reserved special tokens first.")
@click.option("--pad-to-multiple", type=int, default=1, show_default=True, help="Round embedding rows up.")
@click.option("--text-field", help="The column that holds the text; detected when left out.")
@click.option("--threads", type=int, help="Threads for counting.")
@click.option("--memory-budget", type=Size(), help="Memory for counting, e.g. 4GB.")
@click.option("--executor", default="local", show_default=True, help="Where to count: local or ray.")
@click.option("--ray-address", help="An existing Ray cluster, or auto.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    base: str, inputs: tuple[str, ...], *, output: str, require: str | None, as_json: bool, **options: Any
) -> None:
    """Continue the training of BASE on INPUTS; no id of BASE changes."""
    from tokenmill.pipeline.extend import extend
    from tokenmill.vocab.maps import EXTENSION

    options["only_script"] = [name for names in options["only_script"] for name in names.split(",") if name]
    required = _read_lines(Path(require)) if require else []
    field = options.pop("text_field")
    source = {} if field is None else {"text_field": field}
    tokenizer = extend(
        base, list(inputs) or None, output=output, require=[r for r in required if r], **options, **source
    )
    body = json.loads((Path(output) / EXTENSION).read_text(encoding="utf-8"))
    proof = body["certificate"]
    if as_json:
        summary = {"output": output, "vocab_size": tokenizer.vocab_size, "added": len(body["tokens"])}
        click.echo(json.dumps(summary | {"certificate": proof}, ensure_ascii=False))
        return
    click.echo(f"{output}: {len(body['tokens']):,} new tokens, {tokenizer.vocab_size:,} ids")
    if proof is not None:
        click.echo(f"kept ids: {proof['changed']:,} of {proof['documents']:,} documents changed")
