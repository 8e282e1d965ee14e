"""`tokenmill inspect`: show tokenizers or a dataset."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import click

from tokenmill.base import words
from tokenmill.cli.options import command, json_option, say, show, use
from tokenmill.tokenizer.tokenizer import Tokenizer


@command(
    "tokenmill inspect ./tok",
    "tokenmill inspect out --doc 17",
    "tokenmill inspect ./tok --chat",
)
@click.argument("sources", nargs=-1, required=True)
@use("tokenizer.pattern")
@click.option("--doc", type=int, help="For a dataset: show this document, decoded, and its origin.")
@click.option("--chat", is_flag=True, help="Show the chat template and its loss mask on a conversation.")
@use("chat.chat_template")
@use("tokenizer.tokenizer_name", help="For a dataset: the tokenizer to decode with. Default: its own.")
@json_option
def inspect(sources: tuple[str, ...], *, as_json: bool, **options: Any) -> None:
    """Show family, strategy and vocabulary of each tokenizer. `tokenizer card` measures it on text.

    A directory that `tokenmill prepare` wrote is shown as a dataset; with --doc N, one document of it.
    """
    from tokenmill.report.documents import describe_dataset, describe_document, show_template
    from tokenmill.vocab.card import describe

    datasets = [source for source in sources if is_dataset(source)]
    if options["doc"] is not None:
        if len(datasets) != 1 or len(sources) != 1:
            raise click.UsageError("--doc is for one dataset, a directory that `tokenmill prepare` wrote")
        given = Tokenizer.load(options["tokenizer"]) if options["tokenizer"] else None
        document = describe_document(datasets[0], options["doc"], given)
        show(document, _format_document(datasets[0], document), as_json=as_json)
        if not as_json:
            _show_parts(document["parts"])
        return
    if datasets:
        found = [describe_dataset(path) for path in datasets]
        show({"datasets": found}, "\n".join(map(_format_dataset, found)), as_json=as_json)
        return
    loaded = {source: Tokenizer.load(source, pattern=options["pattern"]) for source in sources}
    if not options["chat"] and not options["chat_template"]:
        found = [describe(tokenizer) for tokenizer in loaded.values()]
        show({"tokenizers": found}, "\n".join(map(_format_tokenizer, found)), as_json=as_json)
        return
    chats = {source: show_template(each, options["chat_template"]) for source, each in loaded.items()}
    if as_json:
        show(chats, "", as_json=True)
        return
    for source, facts in chats.items():
        say(f"{source}: chat template {facts['template']}\n{_format_chat(facts)}")
        _show_parts(facts["parts"])


def is_dataset(path: str) -> bool:
    """Return True if a directory is a dataset, finished or not; a URL always is."""
    from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
    from tokenmill.sources.stores import is_remote

    return is_remote(path) or any((Path(path) / name).is_file() for name in (MANIFEST, PLAN))


def _show_parts(parts: list[dict[str, Any]]) -> None:
    """Print a text with the trained spans in green, or in brackets without colour."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for part in parts:
        # Escape the control characters of a document, except tabs and line breaks.
        text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", part["text"])
        if part["learned"]:
            text = click.style(text, fg="green", bold=True) if coloured else f"⟦{text}⟧"
        click.echo(text, nl=False)
    click.echo()


def _format_document(path: str, facts: dict[str, Any]) -> str:
    origin, ids = facts["origin"], facts["ids"]
    place = "unknown, the dataset was made without --provenance"
    if origin is not None:
        name = f", id {origin['id']}" if origin.get("id") is not None else ""
        place = f"{origin.get('input', '?')}, row {origin.get('row')}{name}"
    lines = [
        f"document {facts['document']} of {path}: {facts['tokens']:,} tokens in shard {facts['shard']}",
        f"origin: {place}",
        "ids: " + " ".join(map(str, ids[:32])) + (" …" if len(ids) > 32 else ""),
    ]
    if "why_no_text" in facts:
        lines.append(f"no text: {facts['why_no_text']}")
    elif facts["trained"]:
        lines.append(f"trained on: {facts['learned']:,} tokens, in color")
    return "\n".join([*lines, ""])


def _format_dataset(facts: dict[str, Any]) -> str:
    packing, account = facts["packing"], facts["account"]
    documents, tokens, learned = account["documents"], account["tokens"], account.get("learned")
    length = f" into rows of {packing['view']['context_length']:,}" if packing["view"] else ""
    rows = f", {facts['rows']:,} rows" if facts["rows"] else ""
    marks = {"BOS": packing["bos_id"], "EOS": packing["eos_id"], "padding": packing["pad_id"]}
    markers = ", ".join(f"{name} {'none' if mark is None else mark}" for name, mark in marks.items())
    files = f"{words.amount(facts['shards'], 'shard')}, {words.size(facts['bytes'])}"
    made = f"{tokens['encoded']:,} encoded + {tokens['added']:,} added"
    repeated = f"{tokens['repeated']:,} of them repeated, {tokens['padding']:,} padding"
    lines = [
        f"{facts['path']}: {facts['documents']:,} documents, {facts['tokens']:,} tokens{rows}",
        f"  format     {facts['format']} ({facts['dtype']}), {files}",
        f"  tokenizer  {facts['tokenizer']}, {facts['vocab_size']:,} ids",
        f"  packing    {packing['mode']}{length}, {markers}",
        f"  documents  {documents['read']:,} read = {_format_kept(documents)}",
        f"  tokens     {tokens['read']:,} ({made}) = {_format_kept(tokens)}",
        f"  stored     {tokens['stored']:,} tokens, {repeated}",
    ]
    if learned is not None:
        share = learned["written"] / max(tokens["written"], 1)
        kept = _format_kept(learned)
        lines.append(f"  trained    {learned['read']:,} read = {kept}; {share:.1%} of all tokens")
        if learned.get("left_out"):
            lines.append(f"  left out   {_format_counts(learned['left_out'])}, by the chat template")
    lines.append(f"  rejected   {_format_counts(account['rejected']) or 'no records'}")
    return "\n".join([*lines, f"  hash       {facts['content_hash']}"])


def _format_kept(account: dict[str, Any]) -> str:
    """Return `written + dropped`, the latter by reason."""
    reasons = _format_counts(account["dropped"])
    dropped = sum(account["dropped"].values())
    return f"{account['written']:,} written + {dropped:,} dropped{f' ({reasons})' if reasons else ''}"


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())


def _format_chat(facts: dict[str, Any]) -> str:
    if "problem" in facts:
        return f"  {facts['problem']}"
    blocks = "its generation blocks"
    how = blocks if facts["marked"] else "the generation prompt and the end tokens of its turns"
    lines = [f"  trained on, in color: by {how}; {facts['tokens']} tokens"]
    if not facts["closed"]:
        lines.append("  it writes no special token after an answer, so a model does not learn to stop")
    return "\n".join([*lines, ""])


def _format_tokenizer(facts: dict[str, Any]) -> str:
    special = facts["special_tokens"]
    shown = [f"{token} {token_id}" for token, token_id in list(special.items())[:12]]
    rest = f" and {len(special) - len(shown):,} more" if len(special) > len(shown) else ""
    lines = [
        facts["source"],
        f"  family          {facts['family']}",
        f"  strategy        {facts['strategy']} ({facts['reason']})",
        f"  vocabulary      {facts['vocab_size']:,} ids, {facts['added_tokens']:,} added",
        f"  special tokens  {', '.join(shown) or 'none'}{rest}",
        f"  fingerprint     {facts['fingerprint']}",
    ]
    return "\n".join(lines)
