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
    datasets = [source for source in sources if is_dataset(source)]
    if options["doc"] is not None:
        if len(datasets) != 1 or len(sources) != 1:
            raise click.UsageError("--doc is for one dataset, a directory that `tokenmill prepare` wrote")
        _show_document(datasets[0], options["doc"], tokenizer=options["tokenizer"], as_json=as_json)
        return
    if datasets:
        from tokenmill.report.documents import describe_dataset

        facts = [describe_dataset(path) for path in datasets]
        show({"datasets": facts}, "\n".join(map(_describe_dataset, facts)), as_json=as_json)
        return
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = {source: Tokenizer.load(source, pattern=options["pattern"]) for source in sources}
    if options["chat"] or options["chat_template"]:
        _show_chats(loaded, options["chat_template"], as_json=as_json)
    else:
        _show_tokenizers(loaded, as_json=as_json)


def is_dataset(path: str) -> bool:
    """Return True if a directory is a dataset, finished or not; a URL always is."""
    from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
    from tokenmill.sources.stores import is_remote

    return is_remote(path) or any((Path(path) / name).is_file() for name in (MANIFEST, PLAN))


def _show_document(path: str, number: int, *, tokenizer: str | None, as_json: bool) -> None:
    from tokenmill.report.documents import describe_document
    from tokenmill.tokenizer.tokenizer import Tokenizer

    facts = describe_document(path, number, Tokenizer.load(tokenizer) if tokenizer else None)
    if as_json:
        show(facts, "", as_json=True)
        return
    say(f"document {facts['document']} of {path}: {facts['tokens']:,} tokens in shard {facts['shard']}")
    origin = facts["origin"]
    if origin is None:
        say("origin: unknown, the dataset was made without --provenance")
    else:
        name = f", id {origin['id']}" if origin.get("id") is not None else ""
        say(f"origin: {origin.get('input', '?')}, row {origin.get('row')}{name}")
    say("ids: " + " ".join(map(str, facts["ids"][:32])) + (" …" if len(facts["ids"]) > 32 else "") + "\n")
    if "parts" in facts:
        say(f"trained on: {facts['learned']:,} tokens, in color")
        _show_parts(facts["parts"])
    else:
        text = facts["text"] if facts["text"] is not None else f"(no text: {facts['why_no_text']})"
        click.echo(_escape(text))


def _show_parts(parts: list[dict[str, Any]]) -> None:
    """Print a conversation with the trained spans in green, or in brackets without colour."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for part in parts:
        text = _escape(part["text"])
        if not part["learned"]:
            click.echo(text, nl=False)
        elif coloured:
            click.secho(text, fg="green", bold=True, nl=False)
        else:
            click.echo(f"⟦{text}⟧", nl=False)
    say()


def _escape(text: str) -> str:
    """Escape the control characters of a document, except tabs and line breaks, for a terminal."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def _describe_dataset(facts: dict[str, Any]) -> str:
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


def _show_chats(loaded: dict[str, Tokenizer], template: str | None, *, as_json: bool) -> None:
    from tokenmill.report.documents import show_template

    found = {source: show_template(tokenizer, template) for source, tokenizer in loaded.items()}
    if as_json:
        show(found, "", as_json=True)
        return
    for source, facts in found.items():
        say(f"{source}: chat template {facts['template']}")
        if "problem" in facts:
            say(f"  {facts['problem']}")
            continue
        how = (
            "its generation blocks"
            if facts["marked"]
            else "the generation prompt and the end tokens of its turns"
        )
        say(f"  trained on, in color: by {how}; {facts['tokens']} tokens")
        if not facts["closed"]:
            say("  it writes no special token after an answer, so a model does not learn to stop")
        say()
        _show_parts(facts["parts"])


def _show_tokenizers(loaded: dict[str, Tokenizer], *, as_json: bool) -> None:
    from tokenmill.vocab.card import describe

    facts = [describe(tokenizer) for tokenizer in loaded.values()]
    if as_json:
        show({"tokenizers": facts}, "", as_json=True)
        return
    for fact in facts:
        special = fact["special_tokens"]
        shown = [f"{token} {token_id}" for token, token_id in list(special.items())[:12]]
        rest = f" and {len(special) - len(shown):,} more" if len(special) > len(shown) else ""
        say(f"{fact['source']}\n  family          {fact['family']}")
        say(f"  strategy        {fact['strategy']} ({fact['reason']})")
        added = words.amount(fact["added_tokens"], "added token")
        say(f"  vocabulary      {fact['vocab_size']:,} ids, {added}")
        say(f"  special tokens  {', '.join(shown) or 'none'}{rest}")
        say(f"  fingerprint     {fact['fingerprint']}")
