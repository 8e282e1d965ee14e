"""`tokenmill dataset trace`: the documents of a step, and the steps of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.options import command, json_option, show, use

if TYPE_CHECKING:
    from tokenmill.datasets.mixture import Mixture
    from tokenmill.datasets.rows import Rows
    from tokenmill.datasets.trace import History
    from tokenmill.pipeline.traces import RunDocuments


@command(
    "tokenmill dataset trace out --context-length 2048 --seed 1 -w 8 -b 4 --step 1200",
    "tokenmill dataset trace out --state checkpoint/data.json -w 8 -b 4 --rank 3 --text",
    "tokenmill dataset trace out --state a.json --state b.json -w 8 -w 4 -b 4 \\",
    '    --contains "John Doe" --json',
    "tokenmill dataset trace mixture.yaml -w 8 -b 4 --document corpus/a.jsonl:17",
)
@click.argument("source", metavar="DATASET|MIXTURE", type=click.Path())
@click.option("--seed", type=int, help="The seed of the shuffle.  [default: the state's, or none]")
@click.option(
    "--world-size",
    "-w",
    type=int,
    multiple=True,
    default=(1,),
    help="Ranks; repeat it if it changed.",
)
@click.option("--batch-size", "-b", type=int, multiple=True, default=(1,), help="Rows per batch, likewise.")
@click.option("--step", type=int, help="The step, from 0.  [default: the next one after the state]")
@click.option("--rank", type=int, help="Only this rank.")
@click.option("--row", type=int, help="Only this row of the batch, from 0.")
@click.option("--state", "states", multiple=True, help="A saved state (JSON) from which the run resumed.")
@click.option("--from-state", is_flag=True, help="Count steps from the first state, not from the first row.")
@click.option("--drop-last", is_flag=True, help="The run dropped smaller last batches.")
@click.option("--balance", is_flag=True, help="The run balanced its ranks.  [default: the state's]")
@click.option("--epochs", type=click.IntRange(1), help="Epochs of the run.  [default: 1, or the state's]")
@use("packing.context_length")
@use("packing.mode")
@use("packing.overlap")
@use("packing.tail")
@click.option("--document", help="Find the steps that used this record: FILE:ROW, rows from 0.")
@click.option("--id", "name", help="Find the steps that used the document with this id.")
@click.option("--contains", help="Find the steps that used documents with this text.")
@click.option(
    "--until", type=int, help="The steps of the run.  [default: up to the last state, or one epoch]"
)
@click.option("--against", help="Find the first step that differs with this DATASET|MIXTURE.")
@click.option("--text", is_flag=True, help="Show the text.")
@use("tokenizer.tokenizer_name", help="The tokenizer, if it has moved.")
@json_option
def trace(source: str, **options: Any) -> None:
    """Show the documents of a step of a run, or the steps and ranks that used a document.

    The run needs no log, because the order of rows is a function of the seed.
    """
    from tokenmill.datasets.trace import History
    from tokenmill.pipeline.traces import RunDocuments, open_source, read_states
    from tokenmill.tokenizer.tokenizer import Tokenizer

    asked = [word for word in ("document", "name", "contains") if options[word] is not None]
    if len(asked) > 1:
        raise click.UsageError("give only one of --document, --id and --contains")
    states = read_states(options["states"])
    cut = {key: options[key] for key in ("context_length", "packing", "overlap", "tail")}
    rows = open_source(source, states, **cut)
    seed = states[0].get("seed") if options["seed"] is None and states else options["seed"]
    marks = {key: options[key] for key in ("world_size", "drop_last", "from_state")}
    marks["balance"] = options["balance"] or bool(states and states[0].get("balance"))
    history = History(rows, options["batch_size"], seed=seed, states=states, **marks)
    documents = RunDocuments(rows, Tokenizer.load(options["tokenizer"]) if options["tokenizer"] else None)
    if options["against"] is not None:
        _show_difference(history, open_source(options["against"], states, **cut), options)
    elif asked:
        _show_steps(history, documents, options)
    else:
        _show_step(history, documents, options)


def _show_step(history: History, documents: RunDocuments, options: dict[str, Any]) -> None:
    step = history.segments[-1].first_step if options["step"] is None else options["step"]
    if options["step"] is None and not options["states"]:
        raise click.UsageError("give --step, --state, or a document to find")
    rows = history.trace(step, rank=options["rank"], epochs=options["epochs"])
    if options["row"] is not None:
        rows = [row for row in rows if row.place == options["row"]]
        if not rows:
            raise click.UsageError(f"--row {options['row']}: no batch of step {step} has such a row")
    found = [documents.describe(row, text=options["text"]) for row in rows]
    lines = [_describe_row(row) for row in found]
    if options["states"] and step == history.segments[-1].first_step:
        lines.insert(0, f"after {step:,} steps, where the last state was saved:")
    show({"step": step, "rows": found}, "\n".join(lines), as_json=options["as_json"])


def _show_difference(history: History, other: Rows | Mixture, options: dict[str, Any]) -> None:
    epochs = options["epochs"] or history.segments[-1].order.epoch + 1
    step = history.find_difference(other, epochs)
    words = f"the same rows at every step, up to the end of {epochs} epoch{'s' * (epochs != 1)}"
    if step is not None:
        words = f"the same rows before step {step:,}, which is the first that differs"
    show({"first_step_that_differs": step}, words, as_json=options["as_json"])


def _show_steps(history: History, documents: RunDocuments, options: dict[str, Any]) -> None:
    from tokenmill.pipeline.traces import find_occurrences

    asked = {"record": options["document"], "name": options["name"], "contains": options["contains"]}
    numbers = documents.find_documents(**asked)
    rows = find_occurrences(history, numbers, options["until"])
    rows = [row for row in rows if options["rank"] in {None, row.rank}]
    found = [documents.describe(row, text=options["text"]) for row in rows]
    count, steps = sum(map(len, numbers.values())), len({row.step for row in rows})
    first = f"{count:,} document{'s' * (count != 1)}, in {len(rows):,} rows of {steps:,} steps"
    named = {str(number): mine for number, mine in numbers.items()}
    words = "\n".join([first, *map(_describe_row, found)])
    show({"documents": named, "rows": found}, words, as_json=options["as_json"])


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
