"""Tensors of rows and batches: no copy where the type allows it, the same order for any workers, exact resume.

Where this interpreter has no torch, test_torch_environment.py runs this file in one that has.
"""

import numpy as np
import pytest

import tokenmill
from small_datasets import numbered

torch = pytest.importorskip("torch", reason="run by test_torch_environment.py in an interpreter with torch")
pytestmark = pytest.mark.torch


@pytest.fixture
def rows(tmp_path):
    return tokenmill.open(numbered(tmp_path / "data", 505)).rows(5)


def flat(batches):
    return [row for batch in batches for row in batch["input_ids"].tolist()]


def test_a_row_of_four_bytes_is_the_file_itself(rows):
    item = rows.to_torch()[3]["input_ids"]
    assert item.dtype == torch.int32
    assert item.tolist() == [15, 16, 17, 18, 19]
    assert item.data_ptr() == rows[3].ctypes.data


def test_two_byte_ids_are_widened(tmp_path):
    rows = tokenmill.open(numbered(tmp_path / "data", 100, dtype="uint16")).rows(5)
    item = rows.to_torch()[1]["input_ids"]
    assert item.dtype == torch.int64
    assert item.tolist() == [5, 6, 7, 8, 9]
    assert rows.to_torch(torch.int32)[1]["input_ids"].dtype == torch.int32


def test_columns_come_along(tmp_path):
    rows = tokenmill.open(numbered(tmp_path / "data", 100)).rows(10, columns=("position_ids", "cu_seqlens"))
    item = rows.to_torch()[0]
    assert item["position_ids"].tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    assert item["cu_seqlens"].tolist() == [0, 7, 10]


def test_a_batch_is_not_copied_on_its_way(rows):
    feed = rows.batches(4)
    made = next(feed.batches())
    from tokenmill.datasets.torch import to_tensors

    assert to_tensors(made)["input_ids"].data_ptr() == made["input_ids"].ctypes.data


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_map_style_under_a_data_loader(rows, context):
    loader = torch.utils.data.DataLoader(
        rows.to_torch(), batch_size=8, num_workers=2, multiprocessing_context=context
    )
    assert flat(loader) == [row.tolist() for row in rows]


@pytest.mark.parametrize(("workers", "context"), [(0, None), (1, "fork"), (2, "fork"), (2, "spawn")])
def test_the_worker_count_never_changes_the_order(rows, workers, context):
    plain = flat(rows.batches(4, shuffle=True, seed=3, rank=1, world_size=2))
    options = {"multiprocessing_context": context} if workers else {}
    loader = rows.batches(4, shuffle=True, seed=3, rank=1, world_size=2).to_torch(workers, **options)
    assert flat(loader) == plain
    assert loader.epoch == 1


def test_the_state_counts_what_was_handed_over_not_what_was_read(rows):
    whole = flat(rows.batches(4, shuffle=True, seed=1))
    loader = rows.batches(4, shuffle=True, seed=1).to_torch(2)
    reading = iter(loader)
    begun = flat([next(reading) for _ in range(3)])
    state = loader.state_dict()
    assert state["position"] == 12
    later = rows.batches(4, shuffle=True, seed=1).to_torch(1)
    later.load_state_dict(state)
    assert begun + flat(later) == whole


def test_a_mixture_of_tensors(rows):
    mixture = tokenmill.Mixture([rows, rows], [3, 1], seed=1)
    batch = next(iter(mixture.batches(8).to_torch()))
    assert batch["source_ids"].tolist().count(1) == 2
    assert np.array_equal(batch["input_ids"][0], mixture[0])
