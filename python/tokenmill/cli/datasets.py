"""What `tokenmill inspect` shows of a dataset: the whole, or one document and where it came from."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from tokenmill.cli.say import say
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN


def is_dataset(path: str) -> bool:
    """Whether a directory is a dataset, finished or not."""
    return any((Path(path) / name).is_file() for name in (MANIFEST, PLAN))


def show_datasets(paths: list[str], *, as_json: bool) -> None:
    """Each dataset in a few lines, or as JSON."""
    from tokenmill.report.documents import describe_dataset

    found = [describe_dataset(path) for path in paths]
    if as_json:
        click.echo(json.dumps({"datasets": found}, indent=1, ensure_ascii=False))
        return
    for facts in found:
        say(_describe(facts))


def show_document(path: str, number: int, *, tokenizer: str | None, as_json: bool) -> None:
    """One document: its text, its ids, and its origin."""
    from tokenmill.errors import DatasetError
    from tokenmill.report.documents import describe_document
    from tokenmill.tokenizer.tokenizer import Tokenizer

    try:
        facts = describe_document(path, number, Tokenizer.load(tokenizer) if tokenizer else None)
    except IndexError as error:
        raise DatasetError(f"{path}: {error}") from error
    if as_json:
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
        return
    say(f"document {facts['document']} of {path}: {facts['tokens']:,} tokens in shard {facts['shard']}")
    origin = facts["origin"]
    if origin is None:
        say(f"origin: not known, {facts['why_no_origin']}")
    else:
        name = f", id {origin['id']}" if origin.get("id") is not None else ""
        say(f"origin: {origin.get('input', '?')}, row {origin.get('row')}{name}")
    say("ids: " + " ".join(map(str, facts["ids"][:32])) + (" …" if len(facts["ids"]) > 32 else ""))
    say()
    if "parts" in facts:
        say(f"learned: {facts['learned']:,} tokens, in colour")
        show_parts(facts["parts"])
        return
    click.echo(facts["text"] if facts["text"] is not None else f"(no text: {facts['why_no_text']})")


def show_parts(parts: list[dict[str, Any]]) -> None:
    """A conversation with what is learned in green; where there is no colour, between brackets."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for part in parts:
        if not part["learned"]:
            click.echo(part["text"], nl=False)
        elif coloured:
            click.secho(part["text"], fg="green", bold=True, nl=False)
        else:
            click.echo(f"⟦{part['text']}⟧", nl=False)
    say()


def _describe(facts: dict[str, Any]) -> str:
    from tokenmill.base.console.words import size

    packing, account = facts["packing"], facts["account"]
    rows = f", {facts['rows']:,} rows of {packing['context_length']}" if facts["rows"] else ""
    marks = {"BOS": packing["bos_id"], "EOS": packing["eos_id"], "padding": packing["pad_id"]}
    markers = ", ".join(f"{name} {'none' if mark is None else mark}" for name, mark in marks.items())
    files = f"{facts['shards']:,} shard{'s' * (facts['shards'] != 1)}, {size(facts['bytes'])}"
    documents, tokens = account["documents"], account["tokens"]
    made = f"{tokens['encoded']:,} encoded + {tokens['added']:,} added"
    repeated = f"{tokens['repeated']:,} of them repeated, {tokens['padding']:,} padding"
    lines = [
        f"{facts['path']}: {facts['documents']:,} documents, {facts['tokens']:,} tokens{rows}",
        f"  format     {facts['format']} ({facts['dtype']}), {files}",
        f"  tokenizer  {facts['tokenizer']}, {facts['vocab_size']:,} ids",
        f"  packing    {packing['mode']}, {markers}",
        f"  documents  {documents['read']:,} read = {_format_kept(documents)}",
        f"  tokens     {tokens['read']:,} ({made}) = {_format_kept(tokens)}",
        f"  stored     {tokens['stored']:,} tokens, {repeated}",
        *_format_learned(account),
        f"  rejected   {_format_counts(account['rejected']) or 'no records'}",
        f"  hash       {facts['content_hash']}",
    ]
    return "\n".join(lines)


def _format_learned(account: dict[str, Any]) -> list[str]:
    """The learned tokens, where the dataset is of conversations."""
    learned = account.get("learned")
    if learned is None:
        return []
    share = learned["written"] / max(account["tokens"]["written"], 1)
    return [f"  learned    {learned['read']:,} read = {_format_kept(learned)}; {share:.1%} of all tokens"]


def _format_kept(account: dict[str, Any]) -> str:
    """`written + dropped`, the latter by reason."""
    reasons = _format_counts(account["dropped"])
    dropped = sum(account["dropped"].values())
    return f"{account['written']:,} written + {dropped:,} dropped{f' ({reasons})' if reasons else ''}"


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())
