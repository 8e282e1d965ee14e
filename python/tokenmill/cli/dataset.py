"""`tokenmill dataset …`: check, publish, rewrite and describe datasets."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import IO, Any

import click

from tokenmill.cli.options import command, drop_missing, json_option, say, show, use

_dataset = click.argument("dataset", type=click.Path(exists=True, file_okay=False))
_output = use("output.path", required=True, help="The new dataset.")
_tokenizer = use("tokenizer.tokenizer_name", help="The tokenizer, if it has moved.")


@command(
    "tokenmill dataset verify out",
    "tokenmill dataset verify out --sample 4 --tokenizer ./tok",
)
@click.argument("dataset", type=click.Path())
@click.option("--sample", default=1, show_default=True, help="Shards to encode again and compare.")
@_tokenizer
@json_option
def verify(dataset: str, *, sample: int, tokenizer: str | None, as_json: bool) -> None:
    """Check hashes, counts, index bounds, every id, and a sample encoded again from the sources.

    The exit code is 1 if there is a problem.
    """
    from tokenmill.errors import EXIT_FAILED
    from tokenmill.pipeline.verify import verify_dataset

    checks = []
    for check in verify_dataset(dataset, sample=sample, tokenizer=tokenizer):
        checks.append(check)
        if not as_json and check.state != "ok":
            click.echo(f"{check.state:<8} {check.name}: {check.detail}")
    counts = Counter(check.state for check in checks)
    figures = {"ok": not counts["problem"], "checks": [asdict(check) for check in checks]}
    words = f"{counts['ok']} checks ok, {counts['problem']} problems, {counts['skipped']} skipped"
    show({"dataset": dataset} | figures, f"{dataset}: {words}", as_json=as_json)
    if counts["problem"]:
        sys.exit(EXIT_FAILED)


@command("tokenmill dataset commit out")
@click.argument("directory")
@json_option
def commit(directory: str, *, as_json: bool) -> None:
    """Publish the manifest of DIRECTORY if every unit has its receipt; otherwise list the missing units."""
    from tokenmill.pipeline.commit import commit_directory

    made = commit_directory(directory)
    figures = {"units": len(made.shards), "documents": made.documents, "tokens": made.tokens}
    words = f"{directory}: {made.documents:,} documents, {made.tokens:,} tokens, {len(made.shards)} units"
    show(figures | {"content_hash": made.content_hash}, words, as_json=as_json)


@command(
    "tokenmill dataset convert out out-megatron --format megatron",
    "tokenmill dataset convert out out-arrow --format arrow --context-length 4096 --packing bestfit",
)
@click.argument("source")
@click.argument("target", type=click.Path(file_okay=False))
@use("output.format", required=True)
@use("output.dtype", default="auto", show_default=True)
@use("packing.context_length", "packing.mode", "packing.overlap", "packing.tail")
@use("packing.max_documents_per_row", "packing.too_long", "packing.multiple_of", "packing.bos_aligned")
@use("packing.columns")
def convert(source: str, target: str, **options: Any) -> None:
    """Rewrite the dataset SOURCE as TARGET in another format, or with rows of another view.

    A format that holds rows gets those of the dataset's default view, changed by the flags here.
    """
    from tokenmill.pipeline.convert import convert_dataset

    given = drop_missing(options)
    if "max_documents_per_row" in given:
        given["max_documents"] = given.pop("max_documents_per_row")
    made = convert_dataset(source, target, given.pop("format"), **given)
    say(f"{target}: {made.tokens:,} tokens as {made.format} ({made.dtype}), {len(made.shards)} shards")


@command("tokenmill dataset push out my-org/my-tokens --private")
@_dataset
@click.argument("name")
@click.option("--private", is_flag=True, help="Make it private.")
def push(dataset: str, name: str, *, private: bool) -> None:
    """Upload DATASET to the Hub as NAME (ORG/NAME), with a card."""
    from tokenmill.pipeline.push import push_dataset

    say(f"{name}: {push_dataset(dataset, name, private=private)}")


@command(
    "tokenmill dataset blend web code                         # by tokens",
    "tokenmill dataset blend web=0.7 code=0.3 --output blend.txt \\",
    "    --sequences sequences.json",
)
@click.argument("datasets", nargs=-1, required=True)
@click.option("--output", type=click.File("w"), default="-", help="A file for the list. Default: stdout.")
@click.option("--sequences", type=click.File("w"), help="A JSON file for --per-dataset-sequences-path.")
def blend(datasets: tuple[str, ...], *, output: IO[str], sequences: IO[str] | None) -> None:
    """Write the list of data paths of DATASETS (each may be DATASET=SHARE) for --data-path."""
    from tokenmill.pipeline.blend import blend

    weights, counts = blend(datasets)
    if sequences is not None:
        click.echo(json.dumps(counts, indent=1), file=sequences)
    click.echo(" ".join(f"{weight:.9g} {prefix}" for prefix, weight in weights.items()), file=output)


@command("tokenmill dataset report quickstart/dataset --open")
@click.argument("directory")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in a browser.")
def report(directory: str, *, open_browser: bool) -> None:
    """Write report.html and report.json of a run again."""
    from tokenmill.report.dataset import write_report

    page = write_report(directory)
    click.echo(page)
    if open_browser:
        click.launch(page)


@command(
    "tokenmill dataset transcode ./data --tokenizer ./qwen-ko --output ./data-ko",
)
@_dataset
@use("tokenizer.tokenizer_name", required=True, help="The new tokenizer.")
@click.option("--old-tokenizer", help="The tokenizer of DATASET, if it has moved.")
@_output
@use("execution.threads")
def transcode(dataset: str, *, tokenizer: str, output: str, **options: Any) -> None:
    """Encode the documents of DATASET again; the result equals preparing the raw text."""
    from tokenmill.pipeline.transcode import transcode

    made = transcode(dataset, tokenizer, output, **drop_missing(options))
    say(f"{output}: {made.num_documents:,} documents, {made.num_tokens:,} tokens")


@command(
    "tokenmill dataset remove out --documents takedown.txt --output out-2",
)
@_dataset
@click.option("--documents", required=True, help="A file with FILE:ROW or a JSON object on each line.")
@_output
@_tokenizer
def remove(dataset: str, *, documents: str, output: str, tokenizer: str | None) -> None:
    """Write DATASET without some documents, rewriting only the shards that contain them."""
    from tokenmill.datasets.dataset import open_dataset
    from tokenmill.pipeline.remove import remove

    made, before = remove(dataset, documents, output, tokenizer=tokenizer), open_dataset(dataset)
    written = len(set(made.manifest.shards) - set(before.manifest.shards))
    say(
        f"{output}: {len(made):,} documents, {made.num_tokens:,} tokens; {len(before) - len(made):,} "
        f"documents and {before.num_tokens - made.num_tokens:,} tokens fewer, {written:,} shards rewritten"
    )


@command(
    "tokenmill dataset rebuild out --output again \\",
    "    --inputs /data/corpus --tokenizer ./tok",
)
@click.argument("dataset", type=click.Path())
@_output
@click.option("--inputs", type=click.Path(exists=True, file_okay=False), help="The directory of the inputs.")
@_tokenizer
def rebuild(dataset: str, *, output: str, inputs: str | None, tokenizer: str | None) -> None:
    """Prepare DATASET again with its own settings, and check that every byte is the same."""
    from tokenmill.pipeline.verify import rebuild

    made = rebuild(dataset, output, inputs=inputs, tokenizer=tokenizer)
    say(f"{output}: {len(made):,} documents, the same bytes as {dataset} ({made.content_hash})")
