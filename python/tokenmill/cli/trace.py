"""`tokenmill dataset trace`: which documents made a step, and which steps saw a document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.options import examples, json_option, use

if TYPE_CHECKING:
    from tokenmill.datasets.mixture import Mixture
    from tokenmill.datasets.rows import Rows
    from tokenmill.datasets.trace import History
    from tokenmill.report.traces import RunDocuments


@click.command(
    epilog=examples(
        "tokenmill dataset trace out --context-length 2048 --seed 1 \\",
        "    --world-size 8 --batch-size 4 --step 1200",
        "tokenmill dataset trace out --state checkpoint/data.json --world-size 8 \\",
        "    --batch-size 4 --rank 3 --text",
        "tokenmill dataset trace out --context-length 2048 --seed 1 -w 8 -b 4 \\",
        "    --document corpus/a.jsonl:17",
        "tokenmill dataset trace out --state a.json --state b.json -w 8 -w 4 -b 4 \\",
        '    --contains "John Doe" --json',
        "tokenmill dataset trace mixture.yaml --world-size 8 --batch-size 4 \\",
        "    --id doc-42",
    )
)
@click.argument("source", metavar="DATASET|MIXTURE", type=click.Path())
@click.option("--seed", type=int, help="The seed of the shuffle.  [default: the state's, or none]")
@click.option(
    "--world-size", "-w", type=int, multiple=True, default=(1,), help="Ranks; repeat if it changed."
)
@click.option(
    "--batch-size", "-b", type=int, multiple=True, default=(1,), help="Rows per batch; repeat if it changed."
)
@click.option("--step", type=int, help="The step, from 0.  [default: the next one after the state]")
@click.option("--rank", type=int, help="Only this rank.")
@click.option("--row", type=int, help="Only this row of the batch, from 0.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="A reading state (JSON) from which the run resumed; may be repeated.",
)
@click.option("--from-state", is_flag=True, help="Count steps from the first state, not from the first row.")
@click.option("--drop-last", is_flag=True, help="The run left out smaller last batches.")
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="How many epochs the run goes through.  [default: 1, or up to the state's]",
)
@use("packing.context_length")
@use("packing.overlap")
@use("packing.tail")
@click.option("--document", help="Find the steps that saw this record: FILE:ROW, rows from 0.")
@click.option("--id", "name", help="Find the steps that saw the document with this id.")
@click.option("--contains", help="Find the steps that saw documents with this text.")
@click.option(
    "--until",
    type=int,
    help="How many steps the run has done.  [default: up to the last state, or one epoch]",
)
@click.option(
    "--against",
    type=click.Path(),
    help="Find the first step that differs if the run continues with this DATASET|MIXTURE.",
)
@click.option("--text", is_flag=True, help="Show the text.")
@use("tokenizer.tokenizer_name", help="The tokenizer, if it is no longer where the manifest says.")
@json_option
def trace(source: str, **options: Any) -> None:
    """Say which documents made a step of a run, or which steps of which ranks saw a document.

    Nothing needs to be logged for it: the order of rows is a function of the seed, and ranks take turns.
    """
    from tokenmill.datasets.trace import History
    from tokenmill.report.traces import RunDocuments, open_source, read_states
    from tokenmill.tokenizer.tokenizer import Tokenizer

    asked = [word for word in ("document", "name", "contains") if options[word] is not None]
    if len(asked) > 1:
        raise click.UsageError("give only one of --document, --id and --contains")
    states = read_states(options["states"])
    cut = {key: options[key] for key in ("context_length", "overlap", "tail")}
    rows = open_source(source, states, **cut)
    seed = states[0].get("seed") if options["seed"] is None and states else options["seed"]
    history = History(
        rows,
        options["batch_size"],
        seed=seed,
        world_size=options["world_size"],
        drop_last=options["drop_last"],
        states=states,
        from_state=options["from_state"],
    )
    tokenizer = Tokenizer.load(options["tokenizer"]) if options["tokenizer"] else None
    run_documents = RunDocuments(rows, tokenizer)
    if options["against"] is not None:
        _show_difference(history, open_source(options["against"], states, **cut), options)
    elif asked:
        _show_steps(history, run_documents, options)
    else:
        _show_step(history, run_documents, options)


def _show_step(history: History, run_documents: RunDocuments, options: dict[str, Any]) -> None:
    step = history.steps_to_last_state if options["step"] is None else options["step"]
    if options["step"] is None and not options["states"]:
        raise click.UsageError("say which --step, or give a --state, or a document to look for")
    rows = history.trace(step, rank=options["rank"], epochs=options["epochs"])
    if options["row"] is not None:
        rows = [row for row in rows if row.place == options["row"]]
        if not rows:
            raise click.UsageError(
                f"--row {options['row']}: no batch of step {step} has such a row; rows count from 0"
            )
    found = [run_documents.describe(row, text=options["text"]) for row in rows]
    if options["as_json"]:
        click.echo(json.dumps({"step": step, "rows": found}, indent=1, ensure_ascii=False))
        return
    if options["states"] and step == history.steps_to_last_state:
        click.echo(f"after {step:,} steps, where the last state was saved:")
    for row in found:
        click.echo(_describe_row(row))


def _show_difference(history: History, other: Rows | Mixture, options: dict[str, Any]) -> None:
    epochs = options["epochs"] or history.segments[-1].order.epoch + 1
    step = history.find_difference(other, epochs)
    if options["as_json"]:
        click.echo(json.dumps({"first_step_that_differs": step}))
    elif step is None:
        click.echo(f"the same rows at every step, up to the end of {epochs} epoch{'s' * (epochs != 1)}")
    else:
        click.echo(f"the same rows before step {step:,}, which is the first that differs")


def _show_steps(history: History, run_documents: RunDocuments, options: dict[str, Any]) -> None:
    from tokenmill.report.traces import find_occurrences

    documents = run_documents.find_documents(
        record=options["document"], name=options["name"], contains=options["contains"]
    )
    rows = find_occurrences(history, documents, options["until"])
    if options["rank"] is not None:
        rows = [row for row in rows if row.rank == options["rank"]]
    found = [run_documents.describe(row, text=options["text"]) for row in rows]
    count = sum(map(len, documents.values()))
    if options["as_json"]:
        named = {str(number): mine for number, mine in documents.items()}
        click.echo(json.dumps({"documents": named, "rows": found}, indent=1, ensure_ascii=False))
        return
    steps = len({row.step for row in rows})
    click.echo(f"{count:,} document{'s' * (count != 1)}, in {len(rows):,} rows of {steps:,} steps")
    for row in found:
        click.echo(_describe_row(row))


def _describe_row(row: dict[str, Any]) -> str:
    line = (
        f"step {row['step']:,}, rank {row['rank']}, row {row['place']} of the batch: "
        f"row {row['row']:,} of {row['dataset']} (epoch {row['epoch']}, place {row['position']:,})"
    )
    return "\n".join([line, *map(_describe_part, row["documents"])])


def _describe_part(part: dict[str, Any]) -> str:
    end, last = part["place"] + part["length"] - 1, part["start"] + part["length"] - 1
    line = f"  {part['place']}-{end}: document {part['document']:,}, its tokens {part['start']:,}-{last:,}"
    origin = part["origin"]
    if origin is not None:
        row = "" if origin.get("row") is None else f" row {origin['row']:,}"
        name = f", id {origin['id']}" if origin.get("id") is not None else ""
        line += f"; {origin.get('input', 'record')}{row}{name}"
    return line + (f"\n      {part['text']!r}" if "text" in part else "")
