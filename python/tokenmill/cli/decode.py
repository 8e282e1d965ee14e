"""`tokenmill decode`: token ids to text."""

from __future__ import annotations

import json
import sys
from typing import Any

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill decode --tokenizer ./tok 31373 995
  echo 'hello' | tokenmill encode -t ./tok | tokenmill decode -t ./tok
  echo '[31373, 995]' | tokenmill decode -t ./tok --json"""
)
@click.argument("ids", nargs=-1)
@click.option("--tokenizer", "-t", required=True, help="A path, a hub id or a known encoding.")
@click.option("--pattern", help="Split pattern, for files that have none.")
@click.option("--skip-special-tokens", is_flag=True, help="Leave special tokens out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def command(ids: tuple[str, ...], *, tokenizer: str, pattern: str | None, **options: Any) -> None:
    """Decode ids from the arguments, or one document per line from standard input."""
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer, pattern=pattern)
    lines = [" ".join(ids)] if ids else (line for line in sys.stdin if line.strip())
    for line in lines:
        found = _parse_ids(line)
        text = loaded.decode(found, skip_special_tokens=options["skip_special_tokens"])
        click.echo(
            json.dumps({"ids": found, "text": text}, ensure_ascii=False) if options["as_json"] else text
        )


def _parse_ids(line: str) -> list[int]:
    """Ids from `1 2 3`, `1,2,3`, `[1, 2, 3]` or `{"ids": [1, 2, 3]}`."""
    words = line.strip()
    try:
        if words.startswith("{"):
            return [int(i) for i in json.loads(words)["ids"]]
        return [int(word) for word in words.strip("[]").replace(",", " ").split()]
    except (ValueError, KeyError, TypeError) as error:
        raise click.BadParameter(f"expected token ids, found {words[:80]!r}") from error
