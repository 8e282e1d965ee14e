"""Tensors of rows and batches: no copy where the type allows it, the same order for any workers, exact resume.

Where this interpreter has no torch, test_torch_environment.py runs this file in one that has.
"""

import numpy as np
import pytest

import tokenmill
from small_datasets import numbered, write_documents

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
    made = next(iter(feed))
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
    assert np.array_equal(batch["input_ids"][0], mixture.gather(np.array([0]))["input_ids"][0])


def attend(q, k, v, mask):
    return torch.softmax((q @ k.T / q.shape[1] ** 0.5).masked_fill(~mask, float("-inf")), 1) @ v


@pytest.mark.parametrize("multiple_of", [1, 4])
def test_attention_over_cu_seqlens_equals_a_dense_mask(tmp_path, multiple_of):
    """As FlashAttention and Transformer Engine take them; outputs and gradients are equal."""
    lengths = np.random.default_rng(1).integers(1, 30, 40).tolist()
    numbers = iter(range(1000))
    documents = [[next(numbers) for _ in range(length)] for length in lengths]
    columns = ("cu_seqlens", "document_ids", "labels")
    rows = tokenmill.open(write_documents(tmp_path, [documents])).rows(
        32, packing="bestfit", multiple_of=multiple_of, columns=columns, dtype="int64"
    )
    batch = next(iter(rows.batches(6, shuffle=True, balance=True).to_torch()))
    ids, labels = batch["input_ids"].reshape(-1), batch["labels"].reshape(-1)
    sizes = batch["cu_seqlens"].diff().tolist()
    begins = batch.get("cu_seqlens_padded", batch["cu_seqlens"]).tolist()
    torch.manual_seed(0)
    weights = [torch.randn(1000, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    target = torch.randn(len(ids), 8, dtype=torch.float64)

    def learn(make):
        q, k, v = (weight[ids] for weight in weights)
        out = make(q, k, v)
        loss = ((out - target)[labels >= 0] ** 2).sum()
        return out[labels >= 0], torch.autograd.grad(loss, weights)

    def by_sequence(q, k, v):
        out = torch.zeros_like(v)
        for begin, size in zip(begins, sizes):  # noqa: B905 - the last begin is the end
            part = slice(begin, begin + size)
            causal = torch.ones(size, size, dtype=torch.bool).tril()
            out[part] = attend(q[part], k[part], v[part], causal)
        return out

    def dense(q, k, v):
        place = torch.arange(len(ids))
        row, document = place // 32, batch["document_ids"].reshape(-1)
        same = (row[:, None] == row) & (document[:, None] == document) & (place[:, None] >= place)
        return attend(q, k, v, same)

    (first, gradients), (second, others) = learn(by_sequence), learn(dense)
    assert torch.allclose(first, second)
    assert all(torch.allclose(mine, theirs) for mine, theirs in zip(gradients, others))  # noqa: B905
    assert sum(int(each.abs().sum() > 0) for each in gradients) == 3
    if multiple_of > 1:
        assert not any(begin % multiple_of for begin in begins)
        assert sum(sizes) == int((labels >= 0).sum()) < len(ids) == begins[-1]
