"""What `tokenmill inspect` shows of a dataset: the whole, or one document and where it came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


def is_dataset(path: str) -> bool:
    """Whether a directory is a dataset, finished or not."""
    return any((Path(path) / name).is_file() for name in ("manifest.json", "plan.json"))


def show_datasets(paths: list[str], *, as_json: bool) -> None:
    """Each dataset in a few lines, or as JSON."""
    from tokenmill.insight.documents import describe_dataset

    found = [describe_dataset(path) for path in paths]
    if as_json:
        click.echo(json.dumps({"datasets": found}, indent=1, ensure_ascii=False))
        return
    for facts in found:
        click.echo(_words(facts))


def show_document(path: str, number: int, *, tokenizer: str | None, as_json: bool) -> None:
    """One document: its text, its ids, and its origin."""
    from tokenmill.insight.documents import describe_document
    from tokenmill.tokenizer.tokenizer import Tokenizer

    facts = describe_document(path, number, Tokenizer.load(tokenizer) if tokenizer else None)
    if as_json:
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
        return
    click.echo(
        f"document {facts['document']} of {path}: {facts['tokens']:,} tokens in shard {facts['shard']}"
    )
    origin = facts["origin"]
    if origin is None:
        click.echo(f"origin: not known, {facts['why_no_origin']}")
    else:
        name = f", id {origin['id']}" if origin.get("id") is not None else ""
        click.echo(f"origin: {origin.get('input', '?')}, row {origin.get('row')}{name}")
    click.echo("ids: " + " ".join(map(str, facts["ids"][:32])) + (" …" if len(facts["ids"]) > 32 else ""))
    click.echo()
    click.echo(facts["text"] if facts["text"] is not None else f"(no text: {facts['why_no_text']})")


def _words(facts: dict[str, Any]) -> str:
    packing, account = facts["packing"], facts["account"]
    rows = f", {facts['rows']:,} rows of {packing['context_length']}" if facts["rows"] else ""
    documents, tokens = (_counts(account[kind]["dropped"]) for kind in ("documents", "tokens"))
    markers = f"BOS {packing['bos_id']}, EOS {packing['eos_id']}, padding {packing['pad_id']}"
    files = f"{facts['shards']} shards, {facts['bytes']:,} bytes"
    lines = [
        f"{facts['path']}: {facts['documents']:,} documents, {facts['tokens']:,} tokens{rows}",
        f"  format     {facts['format']} ({facts['dtype']}), {files}",
        f"  tokenizer  {facts['tokenizer']}, {facts['vocab_size']:,} ids",
        f"  packing    {packing['mode']}, {markers}",
        f"  dropped    {documents} documents, {tokens} tokens",
        f"  rejected   {_counts(account['rejected'])} records",
        f"  hash       {facts['content_hash']}",
    ]
    return "\n".join(lines)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items()) or "no"
