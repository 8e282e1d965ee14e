"""Opening and reading a dataset: documents, rows across shards, boundaries, and what is refused."""

import pickle

import numpy as np
import pytest

import tokenmill
from small_datasets import numbered, write_documents
from tokenmill.datasets.views import View
from tokenmill.errors import ConfigError, DatasetError

DOCUMENTS = [[[1, 2, 3], [4, 5]], [], [[]], [[6], [], [7, 8, 9, 10]]]


@pytest.fixture
def stream(tmp_path):
    return tokenmill.open(write_documents(tmp_path / "data", DOCUMENTS))


def test_documents(stream):
    assert len(stream) == 6
    assert [document.tolist() for document in stream] == [[1, 2, 3], [4, 5], [], [6], [], [7, 8, 9, 10]]
    assert stream[-1].tolist() == [7, 8, 9, 10]
    with pytest.raises(IndexError):
        stream[6]


def test_rows_cross_shards(stream):
    rows = stream.rows(4)
    assert [row.tolist() for row in rows] == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert rows.dropped_tokens == 2
    padded = stream.rows(4, tail="pad", pad_id=99)
    assert [row.tolist() for row in padded][-1] == [9, 10, 99, 99]
    assert [row.tolist() for row in stream.rows(4, 2)] == [
        [1, 2, 3, 4],
        [3, 4, 5, 6],
        [5, 6, 7, 8],
        [7, 8, 9, 10],
    ]


def test_a_row_is_a_view_of_the_file(tmp_path):
    rows = tokenmill.open(numbered(tmp_path / "data", 100, shards=1)).rows(10)
    row = rows[3]
    assert not row.flags.owndata
    assert not row.flags.writeable
    assert row.tolist() == list(range(30, 40))


def test_boundaries(stream):
    columns = ("position_ids", "document_ids", "cu_seqlens", "labels", "attention_mask")
    rows = stream.rows(4, tail="pad", pad_id=99, columns=columns)
    batch = rows.gather(np.array([0, 1, 2]))
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert batch["document_ids"].tolist() == [[0, 0, 0, 1], [1, 3, 5, 5], [5, 5, -1, -1]]
    assert batch["cu_seqlens"].tolist() == [0, 3, 4, 5, 6, 8, 10, 12]
    assert batch["max_seqlen"] == 3
    assert batch["labels"][2].tolist() == [9, 10, -100, -100]
    assert batch["attention_mask"][2].tolist() == [1, 1, 0, 0]
    assert rows.example(1)["position_ids"].tolist() == [0, 0, 0, 1]


def test_the_default_view_and_others(tmp_path):
    documents = [[[1, 2, 3], [4], [5, 6]], [[7, 8, 9, 10]]]
    columns = ("position_ids", "document_ids")
    view = View(4, "bestfit", tail="pad", columns=columns)
    data = tokenmill.open(write_documents(tmp_path / "data", documents, view=view))
    rows = data.rows()
    assert [row.tolist() for row in rows] == [[1, 2, 3, 4], [5, 6, 0, 0], [7, 8, 9, 10]]
    batch = rows.gather(np.array([0, 1, 2]))
    assert batch["document_ids"].tolist() == [[0, 0, 0, 1], [2, 2, -1, -1], [3, 3, 3, 3]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0], [0, 1, 0, 0], [0, 1, 2, 3]]
    # Another length keeps the packing; another packing keeps the columns.
    assert [row.tolist() for row in data.rows(5)] == [[1, 2, 3, 5, 6], [4, 0, 0, 0, 0], [7, 8, 9, 10, 0]]
    assert [row.tolist() for row in data.rows(5, packing="concat")] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert data.rows(packing="window", overlap=2).columns == columns
    assert data.rows(columns=()).columns == ()


def test_excluded_documents_become_padding(stream):
    columns = ("labels", "attention_mask", "document_ids")
    plain, rows = (
        stream.rows(4, pad_id=99, columns=columns, exclude=documents) for documents in ([], [1, 5])
    )
    assert [row.tolist() for row in rows] == [[1, 2, 3, 99], [99, 6, 99, 99]]
    batch = rows.gather(np.array([0, 1]))
    assert batch["labels"].tolist() == [[1, 2, 3, -100], [-100, 6, -100, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [0, 1, 0, 0]]
    assert [span[0] for span in rows.spans(1).tolist()] == [3]
    # A run without them continues with them, and its trace leaves them out.
    feed = plain.batches(1)
    next(iter(feed))
    other = rows.batches(1)
    other.load_state_dict(feed.state_dict())
    assert next(iter(other))["input_ids"].tolist() == [[99, 6, 99, 99]]
    assert [[part.document for part in row.spans] for row in other.trace(0)] == [[3]]


def test_what_is_mapped_is_not_pickled(tmp_path):
    rows = tokenmill.open(numbered(tmp_path / "data", 200_000, shards=2, document=100)).rows(
        100, columns=("position_ids",)
    )
    rows.gather(np.arange(len(rows)))
    packed = pickle.dumps(rows)
    assert len(packed) < 5000
    again = pickle.loads(packed)
    assert again.example(7)["position_ids"].tolist() == rows.example(7)["position_ids"].tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context_length": 0}, "at least 1"),
        ({"context_length": -3}, "at least 1"),
        ({"context_length": 11}, "has only 10 tokens"),
        ({"context_length": 4, "overlap": 4}, "from 0 to context_length - 1 = 3"),
        ({"context_length": 4, "overlap": -1}, "overlap is -1"),
        ({}, "call rows"),
        ({"context_length": 4, "columns": ["positions"]}, "known columns are"),
        ({"context_length": 4, "tail": "keep"}, "'drop' or 'pad'"),
        ({"context_length": 4, "packing": "bins"}, "packing is 'bins'"),
        ({"context_length": 4, "packing": "bestfit", "overlap": 1}, "overlap=1 cannot be combined"),
        ({"context_length": 4, "packing": "bestfit", "tail": "drop"}, "tail='drop' is for packing"),
        ({"context_length": 4, "multiple_of": 8}, "context_length=4 is not a multiple of multiple_of=8"),
        ({"context_length": 4, "multiple_of": 2, "overlap": 2}, "cannot be combined"),
        ({"context_length": 4, "max_documents": 2}, "max_documents=2 is for packing 'bestfit'"),
        ({"context_length": 4, "bos_aligned": True}, "bos_aligned=True is for packing 'bestfit'"),
        ({"context_length": 4, "dtype": "int8"}, "dtype int8 does not hold the ids of a vocabulary of 1,000"),
        ({"context_length": 4, "dtype": "float32"}, "dtype float32 does not hold"),
        ({"context_length": 4, "tail": "pad", "pad_id": 70_000}, "and the pad_id 70000"),
        ({"context_length": 4, "tail": "pad", "pad_id": -100}, "and the pad_id -100"),
    ],
)
def test_bad_rows(stream, options, said):
    with pytest.raises(ConfigError, match=said):
        stream.rows(**options)


def test_padding_needs_a_token(tmp_path):
    data = tokenmill.open(write_documents(tmp_path / "data", DOCUMENTS, eos_id=None))
    with pytest.raises(ConfigError, match=r"bestfit, rows of 4, .* needs a pad_id"):
        data.rows(4, packing="bestfit")
    assert len(data.rows(4, packing="bestfit", bos_aligned=True)) == 2


def test_a_truncated_shard_is_named_at_open(stream):
    path = min((stream.path / "shards").glob("*.bin"))
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(DatasetError, match=rf"{path.name} has 8 bytes, the manifest promises 10"):
        tokenmill.open(stream.path)
    path.unlink()
    with pytest.raises(DatasetError, match=rf"{path.name} is missing"):
        tokenmill.open(stream.path)


@pytest.mark.parametrize("change", ["cut", "grown", "emptied", "removed"])
def test_a_shard_that_changes_after_open_lends_no_tokens_of_its_neighbour(stream, change):
    path = min((stream.path / "shards").glob("*.bin"))
    data = path.read_bytes()
    if change == "removed":
        path.unlink()
    else:
        path.write_bytes({"cut": data[:-2], "grown": data + b"\1\0", "emptied": b""}[change])
    with pytest.raises(DatasetError, match=rf"{path.name} (has \d+ bytes|is missing)"):
        stream.rows(4)[0]
