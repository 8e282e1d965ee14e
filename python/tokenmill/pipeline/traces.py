"""Look up the documents of a step of training, or the steps that read a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.feed import Feed
from tokenmill.datasets.mixture import Mixture
from tokenmill.datasets.records import Records
from tokenmill.datasets.rows import Rows
from tokenmill.datasets.trace import History, TracedRow, list_sources
from tokenmill.datasets.views import View
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.report.documents import choose_length
from tokenmill.settings.resolve import SETTINGS_FILES
from tokenmill.tokenizer.engines.backend import TokenBatch

MOST_ROWS = 64  # rows of one step to show


def open_run(
    path: str,
    batch_size: int,
    *,
    state: str | None = None,
    seed: int | None = None,
    balance: bool = False,
    shards: int | None = None,
    view: dict[str, Any],
    **options: Any,
) -> Feed:
    """Return the feed of a dataset or of a mixture's file, from its first row or from a saved state.

    The state determines the seed and the view if they are None. `shards` is the number of shards that the
    dataset had during the run. `options` are those of `batches`. Raise `ConfigError` if the dataset has
    grown, and neither the state nor `shards` determines the order of the rows.
    """
    saved = {} if state is None else _read_state(state)
    view = {key: value for key, value in {**view, "shards": shards}.items() if value is not None}
    if path.endswith(SETTINGS_FILES):
        if view:
            raise ConfigError(f"{path} already defines its rows: omit {', '.join(view)}")
        feed = Mixture.load(path).batches(batch_size, **options)
    else:
        known = {"exclude", *(field.name for field in fields(View))}
        view = {key: value for key, value in saved.get("source", {}).items() if key in known} | view
        seed = saved.get("seed") if seed is None else seed
        options["shuffle"] = "local" if saved.get("local") else seed is not None
        options["balance"] = balance or saved.get("balance", False)
        dataset = open_dataset(path, shards=view.pop("shards", None))
        feed = dataset.rows(**view).batches(batch_size, seed=seed or 0, **options)
    for rows in list_sources(feed.source) if shards is None else ():
        manifest, now = rows.dataset.manifest, len(rows.dataset.manifest.shards)
        least = saved["source"].get("shards", now) if saved else 0
        if sizes := [str(size) for size in manifest.grown if size >= least]:
            raise ConfigError(
                f"{rows.dataset.address} has grown from {', '.join(sizes)} to {now} shards, and the order of "
                "rows depends on how many there were during the run: give that number with --shards. For a "
                "mixture, give a state of the run with --state"
            )
    if saved:
        feed.load_state_dict(saved)
    return feed


def _read_state(path: str) -> dict[str, Any]:
    """Read a state from a JSON file, as a training job saved it."""
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path} is not a JSON file ({error}); save what state_dict() gives") from None
    if isinstance(state, dict) and "stateful_callbacks" in state:  # trainer_state.json of transformers
        state = state["stateful_callbacks"].get("TokenmillFeed", {}).get("attributes", {}).get("feed")
    if not isinstance(state, dict) or not isinstance(state.get("source"), dict):
        raise DatasetError(f"{path} does not contain the object that state_dict() returns")
    return state


class SourceDocuments:
    """One dataset of a run: its rows, the origins of its documents, and its tokenizer."""

    def __init__(self, rows: Rows, tokenizer: Any = None) -> None:
        self.rows = rows
        self.records = Records(rows.dataset)
        self._given = tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the dataset."""
        return load_dataset_tokenizer(self.rows.dataset.address, self.rows.dataset.manifest, self._given)

    def describe(self, row: TracedRow, *, text: bool = False) -> dict[str, Any]:
        """Return a traced row with the origin of each document and, on request, its text."""
        found = asdict(row)
        found |= {"documents": list(found.pop("spans")), "dataset": self.rows.dataset.address}
        ids = self.rows[row.row] if text else None
        for part in found["documents"]:
            part["origin"] = self.records.find_origin(part["document"])
            if ids is not None:
                part["text"] = self.tokenizer.decode(ids[part["place"] : part["place"] + part["length"]])
        return found

    def find(self, way: str, values: Sequence[str]) -> dict[str, list[int]]:
        """Return the documents of each `record` (FILE:ROW) or `id`, or those that contain each text."""
        if way == "id":
            return self.records.find_ids(values)
        if way == "record":
            records = [parse_record(value) for value in values]
            places = self.records.find_records(records)
            return {value: places[record] for value, record in zip(values, records, strict=True)}
        found: dict[str, list[int]] = {text: [] for text in values}
        shards = self.rows.dataset.shards
        for index in range(len(shards.entries)):
            base = shards.document_starts[index]
            for first, ids, offsets in shards.read_documents(index):
                for nth, text in enumerate(self.tokenizer.decode_batch(TokenBatch(ids, offsets))):
                    for part in values:
                        if part in text:
                            found[part].append(base + first + nth)
        if missing := [part for part, documents in found.items() if not documents]:
            raise DatasetError(f"no document of {self.rows.dataset.address} contains {missing[0]!r}")
        return found


def parse_record(name: str) -> tuple[str, int]:
    """Parse `corpus/a.jsonl:17` into a file and a row of it, from 0."""
    file, _, row = name.rpartition(":")
    if not file or not row.isdecimal():
        raise ConfigError(f"{name!r} is not FILE:ROW, such as corpus/a.jsonl:17; rows count from 0")
    return file, int(row)


def trace_step(
    root: Path, step: int, *, batch_size: int, world_size: int, seed: int | None, context_length: int | None
) -> dict[str, Any]:
    """Return the rows that every rank reads at a step, with documents and texts, and the number of steps."""
    dataset = open_dataset(root)
    cut = choose_length(dataset) if context_length is None else {"context_length": context_length}
    rows = dataset.rows(**cut)
    feed = rows.batches(batch_size, shuffle=seed is not None, seed=seed or 0, world_size=world_size)
    documents, found = SourceDocuments(rows), History(feed).trace(step)
    return {
        "step": step,
        "steps": len(feed),
        "rows": [documents.describe(row, text=True) for row in found[:MOST_ROWS]],
        "left_out": max(0, len(found) - MOST_ROWS),
    }
