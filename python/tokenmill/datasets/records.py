"""Map documents to the records they came from (file and row), and records to documents.

Provenance stores the part of the unit and the record's number in it. The plan stores the input of that part,
and the receipts store the number of records in the parts before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tokenmill.datasets.dataset import Dataset
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.ledger.plan import Plan, parse_plan
from tokenmill.datasets.ledger.receipt import parse_receipt, receipt_name
from tokenmill.datasets.store import read_file
from tokenmill.errors import DatasetError

PROVENANCE = "provenance"
_SHOWN = 5


class Records:
    """The records behind the documents of one dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._starts: dict[int, dict[tuple[int, int], int]] = {}

    @property
    def kept(self) -> bool:
        """True if the dataset was prepared with provenance."""
        shards = self.dataset.manifest.shards
        return bool(shards) and all(any(e.role == PROVENANCE for e in shard.files) for shard in shards)

    def require(self) -> None:
        """Raise `DatasetError` unless the dataset was prepared with provenance."""
        if not self.kept:
            raise DatasetError(
                f"{self.dataset.address} was prepared without `provenance=True`, so it does not know which "
                "file, row or id a document had. Prepare it with that setting, or name "
                'a document by its text: `contains`, or {"contains": "…"} in a list of documents'
            )

    @cached_property
    def plan(self) -> Plan:
        """The plan of the dataset."""
        return parse_plan(*self._read(PLAN))

    def _read(self, name: str) -> tuple[bytes, str]:
        """Return a file next to the shards, and where it is."""
        data, where = read_file(self.dataset.address, name), f"{self.dataset.address}/{name}"
        if data is None:
            raise DatasetError(f"{where} is missing: the dataset was copied in part. Copy all of it")
        return data, where

    def find_origin(self, document: int) -> dict[str, Any] | None:
        """Return `{"input", "range", "row_in_range", "row", "id"}` of a document. None without provenance."""
        if not self.kept:
            return None
        shard, local = self.dataset.shards.locate_document(document)
        ((_, table),) = self._read_tables([shard])
        (found,) = table.slice(local, 1).to_pylist()
        part = self.plan.units[shard].parts[found["part"]]
        return {
            "input": self.plan.inputs[part.input].url,
            "range": str(part.range),
            "row_in_range": found["row"],
            "row": self._count_records_before(part.input)[shard, found["part"]] + found["row"],
            "id": found["id"],
        }

    def _count_records_before(self, number: int) -> dict[tuple[int, int], int]:
        """Return how many records of an input come before each of its parts, from the receipts."""
        if number not in self._starts:
            total, starts = 0, {}
            for unit in self.plan.units:
                mine = [nth for nth, part in enumerate(unit.parts) if part.input == number]
                counts = parse_receipt(*self._read(receipt_name(unit.name))).records if mine else ()
                for nth in mine:
                    starts[unit.ordinal, nth] = total
                    total += counts[nth]
            self._starts[number] = starts
        return self._starts[number]

    def find_ids(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Return the documents with each of some ids. Raise `DatasetError` for an id without a document."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.require()
        found: dict[str, list[int]] = {name: [] for name in names}
        wanted = pa.array(list(found), pa.large_string())
        for shard, table in self._read_tables(range(len(self.dataset.manifest.shards))):
            hits = np.flatnonzero(pc.is_in(table["id"], value_set=wanted).to_numpy())
            for local, name in zip(hits.tolist(), table["id"].take(hits).to_pylist(), strict=True):
                found[name].append(self.dataset.shards.document_starts[shard] + local)
        for name, documents in found.items():
            if not documents:
                raise DatasetError(f"no document of {self.dataset.address} has the id {name!r}")
        return found

    def find_records(self, records: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[int]]:
        """Return the documents of each (file, row). Raise `DatasetError` for a record without a document.

        A file is the full path of an input of the plan, or the end of it.
        """
        self.require()
        found: dict[tuple[str, int], list[int]] = {record: [] for record in records}
        for file in dict.fromkeys(file for file, _ in found):
            wanted = np.array([row for name, row in found if name == file], dtype=np.int64)
            starts = self._count_records_before(self._find_input(file))
            for shard, table in self._read_tables(sorted({ordinal for ordinal, _ in starts})):
                parts, local = table["part"].to_numpy(), table["row"].to_numpy()
                for (ordinal, part), start in starts.items():
                    if ordinal == shard:
                        for hit in np.flatnonzero((parts == part) & np.isin(local + start, wanted)).tolist():
                            number = self.dataset.shards.document_starts[shard] + hit
                            found[file, int(local[hit]) + start].append(number)
        for (file, row), documents in found.items():
            if not documents:
                raise DatasetError(
                    f"row {row:,} of {file} is not a document of {self.dataset.address}: the file has fewer "
                    "rows (counted from 0), or a filter left that one out; see the account"
                )
        return found

    def _read_tables(self, shards: Iterable[int]) -> Iterator[tuple[int, Any]]:
        from tokenmill.datasets.ledger.provenance import read_origins  # imports Arrow

        files = self.dataset.shards
        for index in shards:
            yield index, read_origins(files.path(files.entries[index].file(PROVENANCE)))

    def _find_input(self, file: str) -> int:
        urls = [each.url for each in self.plan.inputs]
        full = os.path.abspath(os.path.expanduser(file))  # noqa: PTH100, PTH111 - as inputs are found
        same = [nth for nth, url in enumerate(urls) if url in {file, full}]
        found = same or [nth for nth, url in enumerate(urls) if url.endswith(f"/{file}")]
        if len(found) != 1:
            several = [urls[nth] for nth in found] or urls
            what = "several inputs have this name" if found else "no input has this name; the inputs are"
            more = f", and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
            raise DatasetError(f"{file}: {what}: {', '.join(several[:_SHOWN])}{more}")
        return found[0]
