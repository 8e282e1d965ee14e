"""`tokenmill dataset trace`: the documents of a step, and the steps of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.options import command, json_option, show, use
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from tokenmill.pipeline.traces import SourceDocuments


@command(
    "tokenmill dataset trace out --context-length 2048 --seed 1 -w 8 -b 4 --step 1200",
    "tokenmill dataset trace out --state checkpoint/data.json -w 8 -b 4 --rank 3 --text",
    'tokenmill dataset trace out --state checkpoint/data.json -w 8 -b 4 --contains "John Doe" --json',
    "tokenmill dataset trace mixture.yaml -w 8 -b 4 --document corpus/a.jsonl:17",
)
@click.argument("source", metavar="DATASET|MIXTURE", type=click.Path())
@click.option("--seed", type=int, help="The seed of the shuffle.  [default: the state's, or none]")
@click.option("--world-size", "-w", type=int, default=1, help="Ranks.")
@click.option("--batch-size", "-b", type=int, default=1, help="Rows per batch.")
@click.option("--step", type=int, default=0, help="The step, from 0 at the first row or at the state.")
@click.option("--rank", type=int, help="Only this rank.")
@click.option("--state", help="A saved state (JSON) from which the run resumed.")
@click.option("--shards", type=int, help="Shards of the dataset during the run, if it has grown since.")
@click.option("--drop-last", is_flag=True, help="The run dropped smaller last batches.")
@click.option("--balance", is_flag=True, help="The run balanced its ranks.  [default: the state's]")
@use("packing.context_length", "packing.mode", "packing.overlap", "packing.tail")
@click.option("--document", "record", help="Find the steps that used this record: FILE:ROW, rows from 0.")
@click.option("--id", help="Find the steps that used the document with this id.")
@click.option("--contains", help="Find the steps that used documents with this text.")
@click.option("--until", type=int, help="The steps of the run.  [default: to the end of the epoch]")
@click.option("--text", is_flag=True, help="Show the text.")
@use("tokenizer.tokenizer_name", help="The tokenizer, if it has moved.")
@json_option
def trace(source: str, **options: Any) -> None:
    """Show the documents of a step of a run, or the steps and ranks that used a document.

    The run needs no log, because the order of rows is a function of the seed. After a resume with another
    world size or batch size, trace each part of the run from its state.
    """
    from tokenmill.datasets.trace import History, list_sources
    from tokenmill.pipeline.traces import SourceDocuments, open_run
    from tokenmill.tokenizer.tokenizer import Tokenizer

    asked = [way for way in ("record", "id", "contains") if options[way] is not None]
    if len(asked) > 1:
        raise click.UsageError("give only one of --document, --id and --contains")
    view = {key: options[key] for key in ("context_length", "packing", "overlap", "tail")}
    run = {key: options[key] for key in ("state", "seed", "balance", "shards", "world_size", "drop_last")}
    feed = open_run(source, options["batch_size"], view=view, **run)
    tokenizer = Tokenizer.load(options["tokenizer"]) if options["tokenizer"] else None
    sources = [SourceDocuments(rows, tokenizer) for rows in list_sources(feed.source)]
    figures: dict[str, Any] = {"step": options["step"]}
    words = []
    if asked:
        numbers = _find_documents(sources, asked[0], options[asked[0]])
        found = [
            row
            for nth, mine in numbers.items()
            for row in History(feed).find(mine, source=nth, until=options["until"])
            if options["rank"] in {None, row.rank}
        ]
        found.sort(key=lambda row: (row.step, row.rank, row.place))
        count, steps = sum(map(len, numbers.values())), len({row.step for row in found})
        words.append(f"{count:,} document{'s' * (count != 1)}, in {len(found):,} rows of {steps:,} steps")
        figures = {"documents": {str(nth): mine for nth, mine in numbers.items()}}
    else:
        found = History(feed).trace(options["step"], rank=options["rank"])
    figures["rows"] = [sources[row.source].describe(row, text=options["text"]) for row in found]
    words += map(_describe_row, figures["rows"])
    show(figures, "\n".join(words), as_json=options["as_json"])


def _find_documents(sources: list[SourceDocuments], way: str, value: str) -> dict[int, list[int]]:
    """Return the documents of each source that match. Raise `DatasetError` if no source has one."""
    found, refused = {}, None
    for nth, source in enumerate(sources):
        try:
            found[nth] = source.find(way, [value])[value]
        except DatasetError as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return found


def _describe_row(row: dict[str, Any]) -> str:
    place = f"row {row['row']:,} of {row['dataset']} (epoch {row['epoch']}, place {row['position']:,})"
    lines = [f"step {row['step']:,}, rank {row['rank']}, row {row['place']} of the batch: {place}"]
    for part in row["documents"]:
        end, last = part["place"] + part["length"] - 1, part["start"] + part["length"] - 1
        line = (
            f"  {part['place']}-{end}: document {part['document']:,}, its tokens {part['start']:,}-{last:,}"
        )
        if (origin := part["origin"]) is not None:
            number = "" if origin.get("row") is None else f" row {origin['row']:,}"
            name = f", id {origin['id']}" if origin.get("id") is not None else ""
            line += f"; {origin.get('input', 'record')}{number}{name}"
        lines.append(line + (f"\n      {part['text']!r}" if "text" in part else ""))
    return "\n".join(lines)
