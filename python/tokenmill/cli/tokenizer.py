"""`tokenmill encode`, `decode` and `tokenmill tokenizer …`: work with and on tokenizers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click

from tokenmill.cli.options import Value, command, drop_missing, json_option, show, use
from tokenmill.settings.schema import Count, Positive, SaveFormat

_output = use("output.path", required=True)
# How the texts of a command are read.
_SOURCE = ("text_field", "txt_mode", "document_separator", "max_record_bytes", "on_error")
_read_texts = use(*(f"source.{key}" for key in _SOURCE))
_pad = click.option("--pad-to-multiple", type=Value(Positive), help="Round up embedding rows.")


@command(
    "echo 'hello world' | tokenmill encode --tokenizer ./tok",
    "tokenmill encode --tokenizer ./tok --lines --json < lines.txt",
    "tokenmill encode --tokenizer ./tok --count src 'docs/**/*.md'",
)
@click.argument("inputs", nargs=-1, type=click.Path(), metavar="[FILES]...")
@use("tokenizer.tokenizer_name", required=True)
@use("tokenizer.pattern")
@use("tokenizer.special", default="parse", show_default=True)
@click.option("--lines", is_flag=True, help="Treat each line as a document.")
@click.option("--tokens", "as_tokens", is_flag=True, help="Print the text of each token instead of its id.")
@click.option("--count", "only_count", is_flag=True, help="Print only the number of ids, and the total.")
@click.option("--add-special-tokens", is_flag=True, help="Add BOS, EOS and the like.")
@use(*(f"source.{key}" for key in _SOURCE[:-1]))  # skipping a record would change the count silently
@json_option
def encode(inputs: tuple[str, ...], *, tokenizer: str, pattern: str | None, **options: Any) -> None:
    """Encode files, or standard input, to ids on standard output: one line per document.

    FILES are files, globs and directories, whose visible files are read. Compressed files, JSON Lines, CSV,
    Parquet and Arrow are read as `prepare` reads them. Any other file is one text. With --count, a file may
    be larger than the memory.
    """
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.tokenizer.streams import count_file, read_documents
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer, pattern=pattern)
    special, template, lines = options["special"], options["add_special_tokens"], options["lines"]
    if not (names := [path for name in inputs or ("-",) for path in _list_files(name)]):
        raise click.UsageError(f"{' '.join(inputs)} contains no visible file")
    form = {"txt_mode": "line", "format": "txt"} if lines else {"txt_mode": "file"}
    source = SourceConfig(**form | drop_missing({key: options.get(key) for key in _SOURCE}))
    if options["only_count"] and not lines:
        counts = (count_file(loaded, name, source, special, template=template) for name in names)
        _show_counts(names, counts, as_json=options["as_json"])
        return
    for name, text in ((each, text) for each in names for text in read_documents(each, source)):
        ids = loaded.encode(text, special=special, add_special_tokens=template)
        found: dict[str, Any] = {"file": name, "count": len(ids)}
        if not options["only_count"]:
            found["ids"] = ids
        if options["as_tokens"]:
            found["tokens"] = [loaded.token_bytes(i).decode(errors="replace") for i in ids]
        if options["as_json"]:
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            shown = [len(ids)] if options["only_count"] else found.get("tokens", ids)
            click.echo(" ".join(map(repr, shown)))


def _show_counts(names: list[str], counts: Iterator[int], *, as_json: bool) -> None:
    """Print a line per file and the total; for a single file only the number."""
    total = 0
    for name, count in zip(names, counts, strict=True):
        total += count
        line = f"{count:>14,}  {name}" if len(names) > 1 else str(count)
        click.echo(json.dumps({"file": name, "count": count}, ensure_ascii=False) if as_json else line)
    if len(names) > 1:
        figures = {"files": len(names), "total": total}
        click.echo(json.dumps(figures) if as_json else f"{total:>14,}  total of {len(names):,} files")


def _list_files(name: str) -> Iterator[str]:
    """Yield the files of a name, a pattern or a directory."""
    if name == "-" or Path(name).is_file():
        yield name
        return
    from tokenmill.sources.discover import list_files, list_paths

    for path in list_paths(name):
        folder = Path(path).is_dir()
        yield from sorted(list_files(path)) if folder else [path]


@command(
    "tokenmill decode --tokenizer ./tok 31373 995",
    "echo 'hello' | tokenmill encode -t ./tok | tokenmill decode -t ./tok --json",
)
@click.argument("ids", nargs=-1)
@use("tokenizer.tokenizer_name", required=True)
@use("tokenizer.pattern")
@click.option("--skip-special-tokens", is_flag=True, help="Omit special tokens.")
@json_option
def decode(
    ids: tuple[str, ...], *, tokenizer: str, pattern: str | None, as_json: bool, **options: Any
) -> None:
    """Decode ids from the arguments, or one document per line from standard input."""
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer, pattern=pattern)
    for line in [" ".join(ids)] if ids else (line for line in sys.stdin if line.strip()):
        found = _parse_ids(line)
        text = loaded.decode(found, **options)
        click.echo(json.dumps({"ids": found, "text": text}, ensure_ascii=False) if as_json else text)


def _parse_ids(line: str) -> list[int]:
    """Return the ids of `1 2 3`, `1,2,3`, `[1, 2, 3]` or `{"ids": [1, 2, 3]}`."""
    words = line.strip()
    try:
        if words.startswith("{"):
            return [int(i) for i in json.loads(words)["ids"]]
        return [int(word) for word in words.strip("[]").replace(",", " ").split()]
    except (ValueError, KeyError, TypeError) as error:
        raise click.BadParameter(f"expected token ids, found {words[:80]!r}") from error


@command(
    "tokenmill tokenizer convert cl100k_base.tiktoken ./cl100k --format hf",
    "tokenmill tokenizer convert ./tok tok.tiktoken --format tiktoken",
)
@click.argument("source")
@click.argument("target", type=click.Path())
@click.option("--format", "kind", type=click.Choice(get_args(SaveFormat)), default="hf", show_default=True)
@use("tokenizer.pattern")
@json_option
def convert(source: str, target: str, *, kind: SaveFormat, pattern: str | None, as_json: bool) -> None:
    """Load SOURCE in any format, save it as TARGET, and check that TARGET gives the same ids."""
    from tokenmill.tokenizer.parity import check_conversion
    from tokenmill.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(source, pattern=pattern)
    tokenizer.save(target, kind)
    compared = check_conversion(tokenizer, target, kind)
    figures = {"source": source, "target": target, "format": kind, "compared": compared}
    words = f"{target}: {tokenizer.vocab_size:,} ids as {kind}; {compared} texts encode the same"
    show(figures, words, as_json=as_json)


@command(
    "tokenmill tokenizer extend ./qwen ko.jsonl.zst --add 16000 \\",
    "    --only-script Hangul -o ./qwen-ko",
    "tokenmill tokenizer extend ./llama3 zh.parquet --add 8000 \\",
    "    --reuse-reserved --pad-to-multiple 64 -o out",
)
@click.argument("base")
@click.argument("inputs", nargs=-1)
@click.option("--add", type=Value(Count), required=True, help="The number of tokens to add.")
@_output
@click.option("--only-script", multiple=True, help="The scripts of all letters in new tokens.")
@click.option("--keep-ids", multiple=True, help="Files whose documents must keep their ids.")
@click.option("--require", type=click.File("rb"), help="A file with strings that must become one token.")
@use("source.counts")
@use("training.min_frequency", help="Do not merge rarer pairs.  [default: 2]")
@use("training.max_token_length", "training.tie_break")
@click.option("--reuse-reserved", is_flag=True, help="Use the ids of reserved special tokens first.")
@_pad
@_read_texts
@use("execution.threads", "execution.memory_budget")
@json_option
def extend(base: str, inputs: tuple[str, ...], *, output: str, as_json: bool, **options: Any) -> None:
    """Continue the training of BASE on INPUTS; no id of BASE changes."""
    from tokenmill.pipeline.extend import extend
    from tokenmill.vocab.maps import EXTENSION

    given = drop_missing(options)
    given["only_script"] = [name for names in options["only_script"] for name in names.split(",") if name]
    if "require" in given:
        try:
            given["require"] = [line for line in given["require"].read().decode().splitlines() if line]
        except UnicodeDecodeError as error:
            raise click.BadParameter(f"--require is not UTF-8 text: {error}") from None
    tokenizer = extend(base, list(inputs) or None, output=output, **given)
    proof = json.loads((Path(output) / EXTENSION).read_text(encoding="utf-8"))["certificate"]
    figures = {"output": output, "vocab_size": tokenizer.vocab_size, "certificate": proof}
    words = f"{output}: {given['add']:,} new tokens, {tokenizer.vocab_size:,} ids"
    if proof is not None:
        words += f"\nkept ids: {proof['changed']:,} of {proof['documents']:,} documents changed"
    show(figures, words, as_json=as_json)


@command(
    "tokenmill tokenizer trim ./qwen --keep-on ko.jsonl.zst \\",
    "    --keep-on en.jsonl.zst --size 64k -o ./qwen-64k",
    "tokenmill tokenizer trim ./llama3 --keep-on corpus --min-count 10 -o ./small",
)
@click.argument("base")
@click.option("--keep-on", multiple=True, required=True, help="Texts whose tokens are kept.")
@click.option("--size", type=Value(Count), help="The number of tokens to keep.")
@click.option("--min-count", type=Value(Positive), help="The minimum count of a kept token.")
@click.option("--protect", multiple=True, help="A string whose tokens are kept.")
@_pad
@_read_texts
@_output
@json_option
def trim(base: str, *, keep_on: tuple[str, ...], output: str, as_json: bool, **options: Any) -> None:
    """Drop tokens of BASE, leaf first; ids become dense, and trim.json has the map."""
    from tokenmill.vocab.trim import trim

    tokenizer = trim(base, list(keep_on), output=output, **drop_missing(options))
    figures = {"output": output, "vocab_size": tokenizer.vocab_size}
    show(figures, f"{output}: {tokenizer.vocab_size:,} ids remain", as_json=as_json)


@command(
    "tokenmill tokenizer graft ./Qwen3-0.6B ./qwen-ko --output ./Qwen3-0.6B-ko",
    "tokenmill tokenizer graft ./model ./qwen-ko --embedding backbone.embed.weight -o out",
    "tokenmill tokenizer graft ./model ./qwen-ko --donor ./korean-model -o out",
)
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("change", metavar="MAP", type=click.Path(exists=True))
@click.option("--embedding", "embeddings", multiple=True, help="The name of an embedding or output tensor.")
@click.option(
    "--donor",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A model with the new vocabulary: new rows are sparse combinations (OMP) instead of means.",
)
@_output
@json_option
def graft(model: Path, change: str, *, output: str, as_json: bool, **options: Any) -> None:
    """Write MODEL (safetensors) with rows for the vocabulary of MAP, the output of extend or trim."""
    from tokenmill.vocab.graft import graft_model
    from tokenmill.vocab.maps import load_map

    done = graft_model(model, load_map(change), Path(output), **options)
    lines = [f"{name}: {rows:,} -> {done['rows']:,} rows" for name, rows in done["tensors"].items()]
    lines.append(f"{output}: {done['new']:,} new rows")
    if untrained := max(done["untrained"].values()):
        lines.append(f"{untrained:,} old rows were never trained and are excluded from averages")
    if not done["tokenizer"]:
        lines.append("The map has no tokenizer next to it, so the output has none; copy the new one there.")
    show(done, "\n".join(lines), as_json=as_json)


@command(
    "tokenmill tokenizer card ./tok --on en=en.jsonl --on ko=ko.jsonl",
    "tokenmill tokenizer card ./tok cl100k_base --on 'ko/*.parquet' --html card.html",
    "tokenmill tokenizer card ./tok --on en=en.jsonl --on ko=ko.jsonl --parallel id",
    "tokenmill tokenizer card ./model --on chat.jsonl --draft 32000 -o draft.safetensors",
    "tokenmill tokenizer card ./tok --golden golden.json     # doctor --golden checks it",
)
@click.argument("tokenizers", nargs=-1, required=True)
@click.option("--on", "corpora", multiple=True, metavar="[NAME=]FILES", help="Texts to measure on.")
@_read_texts
@use("tokenizer.pattern")
@click.option("--parallel", metavar="FIELD", help="An id that translations of a document share.")
@click.option("--model", type=click.Path(exists=True, file_okay=False), help="Find its untrained rows.")
@use("execution.threads")
@click.option("--draft", type=Value(Count), help="Choose this many ids by frequency and write d2t and t2d.")
@click.option("--golden", type=click.Path(dir_okay=False), help="A file for the ids of 2,000 fixed strings.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with charts.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the figures as CSV.")
@use("output.path", help="The safetensors file of --draft.")
@json_option
def card(tokenizers: tuple[str, ...], *, corpora: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure a vocabulary: compression, fairness, unreachable and unused tokens."""
    from tokenmill.base.durable import publish_bytes
    from tokenmill.report.card import render_csv, render_page, render_text
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.card import card, write_draft
    from tokenmill.vocab.golden import write_golden

    loaded = [Tokenizer.load(each, pattern=options["pattern"]) for each in tokenizers]
    golden, draft, output = options["golden"], options["draft"], options["output"]
    if (golden or draft) and len(loaded) > 1:
        raise click.UsageError("--golden and --draft are for one tokenizer")
    if golden:
        count = write_golden(loaded[0], golden)
        words = f"{golden}: the ids of {count:,} strings; check them with doctor --golden"
        show({"golden": golden, "strings": count}, words, as_json=as_json)
        return
    on: dict[str, str] = {}
    for text in corpora:
        name, sign, files = text.partition("=")
        is_named = sign and "/" not in name and not Path(text).exists()
        on |= {name: files} if is_named else {Path(text).name: text}
    source = drop_missing({key: options[key] for key in _SOURCE})
    if draft:
        if not on or not output:
            raise click.UsageError("--draft needs texts (--on) and a file for the maps (--output)")
        done = write_draft(loaded[0], list(on.values()), draft, output, **source)
        share = f"{draft:,} of {done['target']:,} ids, {done['coverage']:.2%} of all tokens"
        show(done, f"{output}: {share}", as_json=as_json)
        return
    limits = {key: options[key] for key in ("parallel", "model", "threads")}
    data = card(loaded, on, **limits, **source)
    if options["html"]:
        publish_bytes(options["html"], render_page(data))
    if options["as_csv"] and not as_json:
        click.echo(render_csv(data), nl=False)
    else:
        show(data, render_text(data), as_json=as_json)
