"""`tokenmill inspect`: look at tokenizers, alone or on your own files, or at a dataset."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.console import words
from tokenmill.base.console.folding import count_cells, find_width
from tokenmill.cli.datasets import is_dataset, show_datasets, show_document, show_parts
from tokenmill.cli.say import say
from tokenmill.cli.sizes import Size

if TYPE_CHECKING:
    from tokenmill.report.vocabulary import Description, Measurement


@click.command(
    epilog="""\b
Examples:
  tokenmill inspect ./tok
  tokenmill inspect ./tok cl100k_base --on corpus.jsonl --on 'ko/*.parquet'
  tokenmill inspect ./tok --on corpus.jsonl --extrapolate 825GB --json
  tokenmill inspect out
  tokenmill inspect out --doc 17
  tokenmill inspect ./tok --chat"""
)
@click.argument("sources", nargs=-1, required=True)
@click.option("--on", "corpora", multiple=True, help="Files to measure on: a path, glob or directory.")
@click.option("--text-field", help="The field or column that holds the text.")
@click.option("--pattern", help="Split pattern, for files that have none.")
@click.option(
    "--extrapolate", type=Size(), help="Tokens, time and disk for a corpus of this size, e.g. 825GB."
)
@click.option("--most", type=Size(), help="Read at most this much of each corpus, e.g. 100MB.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads; automatic if left out.")
@click.option("--doc", type=int, help="For a dataset: show this document, decoded, and its origin.")
@click.option(
    "--chat", is_flag=True, help="Show the chat template on a small conversation, and what is learned."
)
@click.option("--chat-template", help="A Jinja file or a name, for --chat.  [default: the tokenizer's own]")
@click.option("--tokenizer", help="For a dataset: decode with this one, not with the one it names.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(sources: tuple[str, ...], *, corpora: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what each tokenizer is: family, strategy, vocabulary; with --on, what it does to text.

    A directory that `tokenmill prepare` wrote is shown as a dataset; with --doc N, one document of it.
    """
    datasets = [source for source in sources if is_dataset(source)]
    number = options.pop("doc")
    if number is not None:
        if len(datasets) != 1 or len(sources) != 1:
            raise click.UsageError("--doc is for one dataset, a directory that `tokenmill prepare` wrote")
        show_document(datasets[0], number, tokenizer=options["tokenizer"], as_json=as_json)
        return
    if datasets:
        show_datasets(datasets, as_json=as_json)
        return
    from tokenmill.report import vocabulary
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = {source: Tokenizer.load(source, pattern=options["pattern"]) for source in sources}
    if options["chat"] or options["chat_template"]:
        _show_chats(loaded, options["chat_template"], as_json=as_json)
        return
    facts = [vocabulary.describe(tokenizer) for tokenizer in loaded.values()]
    results = [
        result
        for corpus in corpora
        for result in vocabulary.measure(
            loaded,
            corpus,
            text_field=options["text_field"],
            threads=options["threads"],
            most_bytes=options["most"],
        )
    ]
    if options["extrapolate"] is not None:
        for result in results:
            vocabulary.extrapolate(result, options["extrapolate"])
    if as_json:
        report = {
            "tokenizers": [vars(fact) for fact in facts],
            "measurements": [result.to_dict() for result in results],
        }
        click.echo(json.dumps(report, indent=1, ensure_ascii=False))
        return
    for fact in facts:
        _show_tokenizer(fact)
    if results:
        _show_table(results)


def _show_chats(loaded: dict[str, Any], asked: str | None, *, as_json: bool) -> None:
    from tokenmill.report.chats import show_template

    found = {source: show_template(tokenizer, asked) for source, tokenizer in loaded.items()}
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    for source, facts in found.items():
        say(f"{source}: chat template {facts['template']}")
        if "problem" in facts:
            say(f"  {facts['problem']}")
            continue
        how = "its generation blocks" if facts["marked"] else "rendering shorter conversations"
        say(f"  learned, in colour: by {how}; {facts['tokens']} tokens")
        if not facts["closed"]:
            say("  it writes no special token after an answer: nothing tells a model to stop")
        say()
        show_parts(facts["parts"])


def _show_tokenizer(fact: Description) -> None:
    say(f"{fact.source}")
    say(f"  family          {fact.family}")
    say(f"  strategy        {fact.strategy} ({fact.reason})")
    say(f"  vocabulary      {fact.vocab_size:,} ids, {words.amount(fact.added_tokens, 'added token')}")
    shown = [f"{token} {token_id}" for token, token_id in list(fact.special_tokens.items())[:12]]
    rest = len(fact.special_tokens) - len(shown)
    say(f"  special tokens  {', '.join(shown) or 'none'}{f' and {rest:,} more' if rest else ''}")
    say(f"  fingerprint     {fact.fingerprint}")


def _shorten(source: str) -> str:
    """The last two parts of a path, which distinguish it: `a/b/tok.json` -> `b/tok.json`."""
    return "/".join(Path(source).parts[-2:])


def _show_table(results: list[Measurement]) -> None:
    """One line per measurement, or a list of its figures where the terminal is too narrow."""
    rows = [_format_figures(result) for result in results]
    widths = [max(map(count_cells, [name, *(row[name] for row in rows)])) for name in rows[0]]
    terminal = find_width(sys.stdout)
    if terminal and sum(widths) + 2 * (len(widths) - 1) > terminal:
        for row in rows:
            say(f"{row.pop('tokenizer')} on {row.pop('corpus')}")
            for name, value in row.items():
                say(f"  {name:<15} {value}")
    else:
        for line in [list(rows[0]), *(list(row.values()) for row in rows)]:
            spaces = [" " * (width - count_cells(cell)) for cell, width in zip(line, widths, strict=True)]
            # Two names, then numbers, which are right-aligned.
            pairs = enumerate(zip(line, spaces, strict=True))
            click.echo("  ".join(cell + pad if nth < 2 else pad + cell for nth, (cell, pad) in pairs))
    for result in results:
        if result.extrapolated:
            _show_extrapolated(result)


def _format_figures(result: Measurement) -> dict[str, str]:
    """What one tokenizer did to one corpus, by heading."""
    figures = result.to_dict()
    return {
        "tokenizer": _shorten(result.tokenizer),
        "corpus": Path(result.corpus).name or result.corpus,
        "documents": f"{result.documents:,}",
        "MB": f"{result.bytes / 1e6:,.1f}",
        "tokens": f"{result.tokens:,}",
        "bytes/token": f"{figures['bytes_per_token']:.3f}",
        "tokens/word": f"{figures['tokens_per_word']:.3f}",
        "tokens/char": f"{figures['tokens_per_character']:.3f}",
        "unused": f"{figures['unused']:,} ({figures['unused_share']:.0%})",
        "MB/s": f"{figures['megabytes_per_second']:,.0f}",
    }


def _show_extrapolated(result: Measurement) -> None:
    far = result.extrapolated
    say(
        f"{Path(result.tokenizer).name} on {words.size(far['bytes'])} like {Path(result.corpus).name}: "
        f"{far['tokens']:.3g} tokens, {words.duration(far['seconds'])}, "
        f"{words.size(far['disk_bytes'])} on disk"
    )
