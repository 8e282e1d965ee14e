"""A column means the same wherever it is read: stored by any format, or made when rows are read."""

from itertools import accumulate
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from tokenmill.datasets.documents import COLUMNS, find_column
from tokenmill.datasets.formats.format import MODULES
from tokenmill.settings.schema import Column, OutputFormat

TEXTS = [f"document {number} " * (number % 5 + 1) for number in range(120)]
LENGTH = 16
ALL = tuple(COLUMNS)
HOLDERS = ["arrow", "npy", "parquet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The same rows, with every column, in every format that holds columns."""
    root = tmp_path_factory.mktemp("columns")
    (root / "a.txt").write_text("\n".join(TEXTS))
    for name in [*HOLDERS, "tokenmill"]:
        options = {"txt_mode": "line", "context_length": LENGTH, "columns": ALL, "unit_bytes": 1000}
        options["packing"] = "bestfit"
        prepare_bytes(root / "a.txt", root / name, format=name, **options)
    return root


def read_columns(root, shard):
    """The columns of a shard as its own library reads them."""
    if root.name == "npy":
        return {name: np.load(root / shard.file(name).path).reshape(-1) for name in ALL}
    path = root / shard.file("table").path
    table = (
        pq.read_table(path) if root.name == "parquet" else pa.ipc.open_stream(path.read_bytes()).read_all()
    )
    return {name: table[name].combine_chunks().flatten().to_numpy() for name in ALL}


def test_the_settings_list_the_columns_and_formats():
    assert (get_args(Column), get_args(OutputFormat)) == (tuple(COLUMNS), tuple(MODULES))


@pytest.mark.parametrize("name", HOLDERS)
def test_what_is_stored_is_what_is_made_when_rows_are_read(made, name):
    rows = tokenmill.open(made / "tokenmill").rows(columns=ALL)
    expected = rows.gather(np.arange(len(rows)))
    manifest = tokenmill.open(made / name).manifest
    assert len(manifest.shards) > 2
    firsts = [0, *accumulate(shard.documents for shard in manifest.shards)]
    found = {column: [] for column in ALL}
    for first, shard in zip(firsts, manifest.shards, strict=False):
        for column, values in read_columns(made / name, shard).items():
            assert values.dtype == find_column(column).stored
            # Files number documents from their shard's first: docs/format.md.
            shift = (values >= 0) * first if column == "document_ids" else 0
            found[column].append(values + shift)
    for column in ALL:
        assert expected[column].dtype == find_column(column).read
        assert np.array_equal(np.concatenate(found[column]), expected[column].reshape(-1)), column


def test_document_ids_are_the_numbers_by_which_documents_are_read(made):
    data = tokenmill.open(made / "tokenmill")
    rows = data.rows(columns=("document_ids",))
    seen = {number: [] for number in range(len(data))}
    for row in range(len(rows)):
        example = rows.example(row)
        for ids, number in zip(example["input_ids"], example["document_ids"], strict=True):
            if number >= 0:
                seen[number].append(int(ids))
    assert [seen[number] for number in range(len(data))] == [ids.tolist() for ids in data]
