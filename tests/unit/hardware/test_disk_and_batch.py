"""Disks by trying, and batches that shrink when memory is short."""

import pytest

from tokenmill.base.hardware import disk
from tokenmill.base.hardware.batch import FEWEST, MOST, compute_batch_size, run_in_batches


def test_probe_measures_and_leaves_nothing(tmp_path):
    speed = disk.probe(tmp_path, 2 << 20)
    assert speed.write > 0
    assert speed.read > 0
    assert speed.kind in {"fast", "slow"}
    assert list(tmp_path.iterdir()) == []


def test_kind_of_disk():
    assert disk.DiskSpeed(write=500e6, read=500e6, flush_seconds=0.001).kind == "fast"
    assert disk.DiskSpeed(write=500e6, read=500e6, flush_seconds=0.03).kind == "slow"
    assert disk.DiskSpeed(write=20e6, read=500e6, flush_seconds=0.001).kind == "slow"


def test_locks_and_space(tmp_path):
    assert disk.locks_work(tmp_path)
    assert disk.free_bytes(tmp_path / "not" / "there") == pytest.approx(disk.free_bytes(tmp_path), rel=0.1)


def test_filesystem_is_the_deepest_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nhost:/x {tmp_path.resolve()} nfs4 rw 0 0\n", encoding="utf-8")
    assert disk.find_filesystem(tmp_path / "out", mounts) == "nfs4"


def test_batch_size_follows_document_size_and_budget():
    assert compute_batch_size(4096, 512 << 20, 2) == 8192
    assert compute_batch_size(4096, 256 << 20, 2) == 4096
    assert compute_batch_size(10_000_000, 64 << 20) == FEWEST
    assert compute_batch_size(10, 512 << 20) == MOST
    assert compute_batch_size(None, 512 << 20, 2) == compute_batch_size(4096, 512 << 20, 2)


def test_short_memory_halves_the_batch_and_loses_nothing():
    sizes = []

    def work(documents):
        sizes.append(len(documents))
        if len(documents) > 3:
            raise MemoryError
        return list(documents)

    documents = [str(number) for number in range(20)]
    found = [document for _, part in run_in_batches(documents, work, 16) for document in part]
    assert found == documents
    assert sizes[:4] == [16, 8, 4, 2]


def test_one_document_that_does_not_fit_is_an_error():
    def work(_):
        raise MemoryError

    with pytest.raises(MemoryError):
        list(run_in_batches(["a", "b"], work, 2))
