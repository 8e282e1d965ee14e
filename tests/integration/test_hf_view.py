"""A dataset as Hugging Face `datasets` sees it, without its cache."""

import pytest

import tokenmill
from small_datasets import numbered, write_documents
from tokenmill.datasets.views import View

BESTFIT = View(4, "bestfit", tail="pad")

datasets = pytest.importorskip("datasets", reason="needs the hf extra")


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tokenmill.open(numbered(tmp_path / "data", 100))


@pytest.mark.parametrize(
    "options", [{}, {"overlap": 3}, {"columns": ("position_ids",)}, {"tail": "pad", "pad_id": 7}]
)
def test_rows(data, options):
    rows = data.rows(8, **options)
    view = rows.to_hf()
    assert view["input_ids"][:] == [row.tolist() for row in rows]
    assert view.column_names == ["input_ids", *options.get("columns", ())]


def test_packed_rows(tmp_path):
    packed = tokenmill.open(write_documents(tmp_path / "data", [[[1, 2, 3], [4]], [[5]]], view=BESTFIT))
    assert packed.rows().to_hf()["input_ids"][:] == [[1, 2, 3, 4], [5, 0, 0, 0]]


def test_nothing_is_written(data, tmp_path):
    data.rows(8).to_hf()
    assert not (tmp_path / "cache").exists()


def test_lengths_of_documents_in_rows_for_trl(data, tmp_path):
    rows = data.rows(8, tail="pad", pad_id=7)
    view = rows.to_hf(seq_lengths=True)
    assert view.column_names == ["input_ids", "seq_lengths"]
    assert [sum(lengths) for lengths in view["seq_lengths"]] == [8] * len(rows)
    packed = tokenmill.open(write_documents(tmp_path / "packed", [[[1, 2, 3], [4]], [[5]]], view=BESTFIT))
    assert packed.rows().to_hf(seq_lengths=True)["seq_lengths"][:] == [[3, 1], [1, 3]]
