"""`tokenmill encode`: text to token ids."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.tokenizer.tokenizer import Tokenizer


@click.command(
    epilog="""\b
Examples:
  echo 'hello world' | tokenmill encode --tokenizer ./tok
  tokenmill encode --tokenizer ./tok --tokens README.md
  tokenmill encode --tokenizer ./tok --lines --json < lines.txt"""
)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--tokenizer", "-t", required=True, help="A path, a hub id or a known encoding.")
@click.option("--pattern", help="Split pattern, for files that have none.")
@click.option("--lines", is_flag=True, help="Treat each line as a document.")
@click.option("--tokens", "as_tokens", is_flag=True, help="Show the text of each token instead of its id.")
@click.option("--count", "only_count", is_flag=True, help="Show only how many ids there are.")
@click.option(
    "--special",
    type=click.Choice(["parse", "text", "forbid"]),
    default="parse",
    show_default=True,
    help="What a special token's string means: the token, ordinary text, or an error.",
)
@click.option(
    "--add-special-tokens", is_flag=True, help="Add the special tokens of the tokenizer's template."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per document.")
def command(files: tuple[str, ...], *, tokenizer: str, pattern: str | None, **options: Any) -> None:
    """Encode files, or standard input, to ids on standard output: one line per document."""
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer, pattern=pattern)
    for name, text in _read_documents(files, lines=options["lines"]):
        ids = loaded.encode(
            text, special=options["special"], add_special_tokens=options["add_special_tokens"]
        )
        click.echo(_format_line(loaded, name, ids, options))


def _read_documents(files: tuple[str, ...], *, lines: bool) -> Iterator[tuple[str, bytes]]:
    """Every document with the name of its file; the tokenizer refuses bytes that are not UTF-8."""
    from tokenmill.errors import InputNotFoundError

    for name in files or ("-",):
        try:
            data = sys.stdin.buffer.read() if name == "-" else _read(name)
        except OSError as error:
            raise InputNotFoundError(f"{name}: cannot be read: {error.strerror}") from error
        if not lines:
            yield name, data
            continue
        for line in data.split(b"\n")[: -1 if data.endswith(b"\n") else None]:
            yield name, line


def _read(name: str) -> bytes:
    with click.open_file(name, "rb") as file:
        data: bytes = file.read()
    return data


def _format_line(tokenizer: Tokenizer, name: str, ids: list[int], options: dict[str, Any]) -> str:
    tokens = (
        [tokenizer.token_bytes(i).decode(errors="replace") for i in ids] if options["as_tokens"] else None
    )
    if options["as_json"]:
        found: dict[str, Any] = {"file": name, "count": len(ids)}
        if not options["only_count"]:
            found["ids"] = ids
        if tokens is not None:
            found["tokens"] = tokens
        return json.dumps(found, ensure_ascii=False)
    if options["only_count"]:
        return str(len(ids))
    return " ".join(repr(token) for token in tokens) if tokens is not None else " ".join(map(str, ids))
