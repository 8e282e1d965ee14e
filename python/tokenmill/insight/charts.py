"""What the page of a run draws: throughput and memory over time, the account, and the rows of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import TokenmillError
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.trace.history import History
from tokenmill.insight.browse import choose_row_length, find_progress
from tokenmill.insight.report.events import read_events
from tokenmill.insight.traces import RunDocuments

if TYPE_CHECKING:
    from pathlib import Path

MOST_ROWS = 64  # of one step; a page that shows thousands shows nothing


def chart_run(root: Path) -> dict[str, Any]:
    """`{"throughput": [[seconds, bytes/s], …], "memory": [[seconds, bytes], …], "account": {…} or None}`."""
    log = read_events(root)
    return {
        "throughput": [[point["seconds"], point["bytes_per_second"]] for point in log.measure_throughput()],
        "memory": [[sample["seconds_in"], sample["rss"]] for sample in log.samples if "rss" in sample],
        "account": _read_account(root),
    }


def _read_account(root: Path) -> dict[str, Any] | None:
    """The account of a finished run; None while it runs, or where its manifest cannot be read."""
    if find_progress(root)["state"] != "done":
        return None
    try:
        return load_manifest(root).account.to_json()
    except TokenmillError:
        return None


def trace_step(
    root: Path, step: int, *, batch_size: int, world_size: int, seed: int | None, context_length: int | None
) -> dict[str, Any]:
    """The rows that every rank reads at a step, with documents and texts, and how many steps there are."""
    dataset = open_dataset(root)
    cut = choose_row_length(dataset) if context_length is None else {"context_length": context_length}
    rows = dataset.rows(**cut)
    history = History(rows, batch_size, seed=seed, world_size=world_size)
    run_documents = RunDocuments(rows)
    found = history.trace(step)
    described = [run_documents.describe(row, text=True) for row in found[:MOST_ROWS]]
    left_out = len(found) - len(described)
    return {"step": step, "steps": history.count_steps(1), "rows": described, "left_out": left_out}
