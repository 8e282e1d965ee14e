"""Look up the documents of a step of training, or the steps that read a document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.mixture import Mixture
from tokenmill.datasets.records import Records
from tokenmill.datasets.rows import Rows
from tokenmill.datasets.trace import History, TracedRow, list_sources
from tokenmill.datasets.views import View
from tokenmill.errors import ConfigError, DatasetError, TokenmillError
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.report.documents import choose_length
from tokenmill.settings.resolve import SETTINGS_FILES
from tokenmill.tokenizer.engines.backend import TokenBatch

MOST_ROWS = 64  # rows of one step to show


def read_states(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Read states from JSON files, as a training job saved them."""
    found = []
    for path in paths:
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{path} is not a JSON file ({error}); save what state_dict() gives") from None
        if isinstance(state, dict) and "stateful_callbacks" in state:  # trainer_state.json of transformers
            state = state["stateful_callbacks"].get("TokenmillFeed", {}).get("attributes", {}).get("feed")
        if not isinstance(state, dict):
            raise DatasetError(
                f"{path} contains {type(state).__name__}; expected the object that state_dict() returns"
            )
        found.append(state)
    return found


def open_source(path: str, states: Sequence[Mapping[str, Any]] = (), **view: Any) -> Rows | Mixture:
    """Return the source of a run: the mixture in a file, or a dataset's rows with the view of the state."""
    given = {key: value for key, value in view.items() if value is not None}
    if path.endswith(SETTINGS_FILES):
        if given:
            flags = " and ".join(f"--{key.replace('_', '-')}" for key in given)
            raise ConfigError(f"{path} already defines its rows: omit {flags}")
        return Mixture.load(path)
    if Path(path).is_file():
        raise ConfigError(f"{path} is a file: give the directory of a dataset, or a mixture's .yaml")
    dataset = open_dataset(path)
    saved = states[-1].get("source") if states else None
    if isinstance(saved, dict):
        known = {"exclude", *(field.name for field in fields(View))}
        given = {key: value for key, value in saved.items() if key in known} | given
    if dataset.manifest.packing.view is None and "context_length" not in given:
        raise ConfigError(
            f"{path} has no default view of rows: give --context-length, and --packing or --overlap if the "
            "run had them"
        )
    return dataset.rows(**given)


class RunDocuments:
    """Find the documents of all datasets of a run, and describe the rows that hold them."""

    def __init__(self, source: Rows | Mixture, tokenizer: Any = None) -> None:
        self._by_source = {
            nth: SourceDocuments(rows, tokenizer) for nth, rows in enumerate(list_sources(source))
        }

    def describe(self, row: TracedRow, *, text: bool = False) -> dict[str, Any]:
        """Return a traced row with the origin of each document and, on request, its text."""
        documents = self._by_source[row.source]
        found = row.to_json() | {"dataset": documents.rows.dataset.address}
        ids = documents.rows[row.row] if text else None
        for part in found["documents"]:
            part["origin"] = documents.records.find_origin(part["document"])
            if ids is not None:
                part["text"] = documents.tokenizer.decode(ids[part["place"] : part["place"] + part["length"]])
        return found

    def find_documents(
        self, *, record: str | None = None, name: str | None = None, contains: str | None = None
    ) -> dict[int, list[int]]:
        """Return the documents of each source that match a record (`FILE:ROW`), an id or a text.

        Raise `DatasetError` if no source has a match.
        """
        found: dict[int, list[int]] = {}
        refusals: list[DatasetError] = []
        for number, documents in self._by_source.items():
            try:
                found[number] = documents.find(record=record, name=name, contains=contains)
            except DatasetError as error:
                refusals.append(error)
        if not any(found.values()):
            raise refusals[0]
        return found


class SourceDocuments:
    """One dataset of a run: its rows, the origins of its documents, and its tokenizer."""

    def __init__(self, rows: Rows, tokenizer: Any) -> None:
        self.rows = rows
        self.records = Records(rows.dataset)
        self._given = tokenizer

    @cached_property
    def tokenizer(self) -> Any:
        """Return the tokenizer of the dataset, or raise an error that names the flag to pass."""
        try:
            dataset = self.rows.dataset
            return load_dataset_tokenizer(dataset.address, dataset.manifest, self._given)
        except DatasetError:
            raise
        except TokenmillError as error:
            raise DatasetError(f"{error}; name it with --tokenizer") from error

    def find(
        self, *, record: str | None = None, name: str | None = None, contains: str | None = None
    ) -> list[int]:
        """Return the documents that match a record (`FILE:ROW`), an id or a text."""
        if contains is not None:
            found = self.find_texts([contains])[contains]
            if not found:
                raise DatasetError(f"no document of {self.rows.dataset.address} contains {contains!r}")
            return found
        if name is not None:
            return self.records.find_ids([name])[name]
        asked = parse_record(record or "")
        return self.records.find_records([asked])[asked]

    def find_texts(self, wanted: Sequence[str]) -> dict[str, list[int]]:
        """Return the documents that contain each of some texts, in one pass."""
        shards = self.rows.dataset.shards
        found: dict[str, list[int]] = {text: [] for text in wanted}
        for index in range(len(shards.entries)):
            base = shards.document_starts[index]
            for first, ids, offsets in shards.read_documents(index):
                for nth, each in enumerate(self.tokenizer.decode_batch(TokenBatch(ids, offsets))):
                    for text in wanted:
                        if text in each:
                            found[text].append(base + first + nth)
        return found


def parse_record(name: str) -> tuple[str, int]:
    """Parse `corpus/a.jsonl:17` into a file and a row of it, from 0."""
    file, _, row = name.rpartition(":")
    if not file or not row.isdecimal():
        raise ConfigError(f"{name!r} is not FILE:ROW, such as corpus/a.jsonl:17; rows count from 0")
    return file, int(row)


def find_occurrences(
    history: History, documents: Mapping[int, Sequence[int]], until: int | None = None
) -> list[TracedRow]:
    """Return the rows of a run that hold tokens of these documents, in the order of steps."""
    found = [
        row for number, mine in documents.items() for row in history.find(mine, source=number, until=until)
    ]
    return sorted(found, key=lambda row: (row.step, row.rank, row.place))


def trace_step(
    root: Path, step: int, *, batch_size: int, world_size: int, seed: int | None, context_length: int | None
) -> dict[str, Any]:
    """Return the rows that every rank reads at a step, with documents and texts, and the number of steps."""
    dataset = open_dataset(root)
    cut = choose_length(dataset) if context_length is None else {"context_length": context_length}
    rows = dataset.rows(**cut)
    history = History(rows, batch_size, seed=seed, world_size=world_size)
    documents, found = RunDocuments(rows), history.trace(step)
    return {
        "step": step,
        "steps": history.count_steps(1),
        "rows": [documents.describe(row, text=True) for row in found[:MOST_ROWS]],
        "left_out": max(0, len(found) - MOST_ROWS),
    }
