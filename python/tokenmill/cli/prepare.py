"""`tokenmill prepare`: raw text to a training-ready dataset."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tokenmill.cli.options import SettingsCommand, add_settings, command, pick_given, say, show, take_inputs

if TYPE_CHECKING:
    from tokenmill.datasets.dataset import Dataset
    from tokenmill.pipeline.run import Run


@command(
    "tokenmill prepare corpus.jsonl --tokenizer gpt2 --output out",
    "tokenmill prepare 'data/*.jsonl.zst' --tokenizer ./tok --output out \\",
    "    --context-length 4096 --overlap 256",
    "tokenmill prepare data --tokenizer ./tok --output out --format megatron \\",
    "    --num-shards 8",
    "tokenmill prepare data --tokenizer ./tok --output out --deduplicate \\",
    "    --where \"lang == 'ko'\"",
    "tokenmill prepare --config job.yaml --dry-run",
    cls=SettingsCommand,
)
@take_inputs
@click.option("--fresh", is_flag=True, help="Remove the output of earlier runs and start over.")
@click.option("--dry-run", is_flag=True, help="Print the plan and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per split on stdout.")
@click.option("-v", "verbose", is_flag=True, help="Show all log lines on a terminal, too.")
@add_settings("prepare", "tokenizer", "output", "packing", "source", "chat", "filter", "execution")
def prepare(
    config_file: str | None,
    *,
    fresh: bool,
    dry_run: bool,
    as_json: bool,
    verbose: bool,
    **values: Any,
) -> None:
    """Turn raw text into a training-ready dataset.

    INPUTS are files, directories, globs or URLs of txt, jsonl, json, csv, parquet, arrow or saved Hugging
    Face datasets, compressed or not. Format, text field, types and workers are detected, and what was
    chosen is printed. The same command again continues where it stopped; new inputs are added.

    A terminal shows what was found and chosen, a bar and a summary; -v shows every line, as a log file does.
    """
    from tokenmill.pipeline.prepare import set_up, write_split_list
    from tokenmill.settings.resolve import resolve

    # Before units run, SIGTERM ends the command as Ctrl-C does; it can be resumed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    resolved = resolve(config_file, pick_given(values), job="prepare")
    execution = resolved.config.execution
    loud = verbose or resolved.is_set_by_user("execution.verbose_level")
    if calm := not loud and sys.stderr.isatty():
        quiet = replace(execution, verbose_level="WARNING")
        resolved = replace(resolved, config=replace(resolved.config, execution=quiet))
    runs = set_up(resolved, fresh=fresh and not dry_run)
    for run in runs.values():
        if calm:
            _show_choices(run)
        unit_range = run.job.config.execution.unit_range
        if dry_run:
            _show_plan(run, as_json=as_json)
        elif unit_range is not None:
            _show_part(run, as_json=as_json)
        else:
            logged = resolved.config.execution.verbose_level in {"DEBUG", "INFO"}
            _show_outcome(*run.execute(), as_json=as_json, logged=logged)
    if not dry_run:
        write_split_list(resolved, list(runs))


def _show_choices(run: Run) -> None:
    """Print the input and the choices on two lines."""
    from tokenmill.base import words

    job, files = run.job, run.inputs
    packing, source = job.packing, job.config.source
    chat = source.messages_field or " and ".join([*source.prompt_field, source.completion_field or ""])
    field = f"; conversations in {chat!r}" if chat else ""
    field = f"; text in {source.text_field!r}" if source.text_field else field
    size = words.size(sum(file.size for file in files))
    kinds = ", ".join(sorted({file.format for file in files}))
    say(f"found   {words.amount(len(files), 'file')}, {kinds}, {size}{field}", err=True)
    rows = f" into rows of {packing.context_length:,}" if packing.context_length else ""
    ends = "no token" if packing.eos_id is None else job.name_token(packing.eos_id)
    tokenizer = f"{job.tokenizer.name} ({job.tokenizer.vocab_size:,} ids, {job.encoder.strategy.name} engine)"
    output = f"{ends} after each document, {job.config.output.format} files"
    say(f"using   {tokenizer}, {packing.mode}{rows}, {output}", err=True)


def _show_plan(run: Run, *, as_json: bool) -> None:
    from tokenmill.base.words import size
    from tokenmill.pipeline.commit import find_receipts

    plan = run.plan()
    done = find_receipts(run.job.root, plan, run.job.remote)
    units: list[dict[str, Any]] = []
    lines = []
    for unit in plan.units:
        parts = [f"{plan.inputs[part.input].url} {part.range}" for part in unit.parts]
        is_done = unit.ordinal in done
        units.append({"unit": unit.name, "bytes": unit.bytes, "done": is_done, "parts": parts})
        rest = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        state = "done" if is_done else "to do"
        lines.append(f"{unit.name}  {size(unit.bytes):>9}  {state:<5}  {parts[0]}{rest}")
    counts = f"{len(plan.inputs)} inputs, {size(plan.bytes)}, {len(units)} units, {len(done)} done"
    inputs = [{"path": file.url, "size": file.size} for file in plan.inputs]
    figures = {"inputs": inputs, "bytes": plan.bytes, "units": units}
    show(figures, "\n".join([*lines, f"{counts}; nothing was written"]), as_json=as_json)


def _show_part(run: Run, *, as_json: bool) -> None:
    from tokenmill.pipeline.commit import find_receipts

    manifest = run.lead()
    root, plan = run.job.location, run.plan()
    done = len(find_receipts(run.job.root, plan, run.job.remote))
    words = f"{root}: {done} of {len(plan.units)} units done; the other parts, or "
    words += f"`tokenmill dataset commit {root}`, publish the manifest"
    if manifest is not None:
        words = f"{root}: all {done} units done, {manifest.tokens:,} tokens"
    figures = {"done": done, "units": len(plan.units), "complete": manifest is not None}
    show(figures, words, as_json=as_json)


def _show_outcome(dataset: Dataset, summary: dict[str, Any], *, as_json: bool, logged: bool) -> None:
    """Print the summary; with `logged`, without the speed and the dropped documents, which the log has."""
    from tokenmill.base import words
    from tokenmill.pipeline.run import list_left_out

    if as_json:
        click.echo(json.dumps(summary, indent=1, ensure_ascii=False))
        return
    rows = f", {summary['rows']:,} rows" if summary["rows"] else ""
    say(
        f"{summary['path']}: {words.amount(summary['documents'], 'document')}, "
        f"{summary['tokens']:,} tokens{rows}, {words.amount(summary['shards'], 'shard')}"
    )
    if logged:
        return
    for what, counts in list_left_out(dataset).items():
        say(f"{what}: {counts}")
    if summary["worked"]:
        speed = f"{summary['examples_per_second']:,.0f} examples/s"
        say(f"{summary['examples']:,} examples in {summary['seconds']:.2f} seconds, {speed}")
