"""`tokenmill prepare`: raw text to a training-ready dataset."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base import words
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
            say("\n".join(run.choices), err=True)
        if dry_run:
            _show_plan(run, as_json=as_json)
        elif execution.unit_range is not None:
            _show_part(run, as_json=as_json)
        else:
            logged = not calm and execution.verbose_level in {"DEBUG", "INFO"}
            _show_outcome(run, run.execute(), as_json=as_json, logged=logged)
    if not dry_run:
        write_split_list(resolved, list(runs))


def _show_plan(run: Run, *, as_json: bool) -> None:
    plan, done = run.plan(), run.find_receipts()
    units: list[dict[str, Any]] = []
    for unit in plan.units:
        parts = [f"{plan.inputs[part.input].url} {part.range}" for part in unit.parts]
        state = "done" if unit.ordinal in done else "to do"
        units.append({"unit": unit.name, "bytes": unit.bytes, "state": state, "parts": parts})
    lines = [f"{each['unit']}  {each['bytes']:>12,}  {each['state']}  {each['parts'][0]}" for each in units]
    counts = f"{len(plan.inputs)} inputs, {words.size(plan.bytes)}, {len(units)} units, {len(done)} done"
    show({"units": units}, "\n".join([*lines, f"{counts}; nothing was written"]), as_json=as_json)


def _show_part(run: Run, *, as_json: bool) -> None:
    complete, root = run.lead() is not None, run.job.location
    done, units = len(run.find_receipts()), len(run.plan().units)
    text = f"{root}: {done} of {units} units done"
    if not complete:
        text += f"; the other parts, or `tokenmill dataset commit {root}`, publish the manifest"
    show({"done": done, "units": units, "complete": complete}, text, as_json=as_json)


def _show_outcome(run: Run, dataset: Dataset, *, as_json: bool, logged: bool) -> None:
    """Print the summary; with `logged`, without the speed and the dropped documents, which the log has."""
    from tokenmill.pipeline.run import list_left_out

    manifest, examples = dataset.manifest, dataset.manifest.account.documents_read
    figures = {
        "path": dataset.address,
        "documents": manifest.documents,
        "tokens": manifest.tokens,
        "rows": manifest.rows,
        "shards": len(manifest.shards),
        "examples": examples,
        "seconds": round(run.seconds, 3),
        "content_hash": manifest.content_hash,
        "account": manifest.account.to_json(),
    }
    counts = [words.amount(manifest.documents, "document"), f"{manifest.tokens:,} tokens"]
    counts += [f"{manifest.rows:,} rows"] if manifest.rows else []
    lines = [f"{dataset.address}: {', '.join(counts)}, {words.amount(len(manifest.shards), 'shard')}"]
    if not logged:
        lines += [f"{what}: {left_out}" for what, left_out in list_left_out(dataset).items()]
        if run.seconds:
            speed = f"{examples / run.seconds:,.0f} examples/s"
            lines.append(f"{examples:,} examples in {run.seconds:.2f} seconds, {speed}")
    show(figures, "\n".join(lines), as_json=as_json)
