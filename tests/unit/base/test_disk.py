"""Disks and batch sizes."""

from pathlib import Path

import pytest

from tokenmill.base import disk
from tokenmill.base.machine import FEWEST_DOCUMENTS, MOST_DOCUMENTS, compute_batch_size


def test_locks_and_space(tmp_path):
    assert disk.locks_work(tmp_path)
    assert disk.free_bytes(tmp_path / "not" / "there") == pytest.approx(disk.free_bytes(tmp_path), rel=0.1)


def test_the_type_of_the_file_system(tmp_path):
    assert disk.find_filesystem(Path("/proc/self")) == "proc"
    assert disk.find_filesystem(tmp_path / "none") != "unknown"


def test_batch_size_follows_document_size_and_budget():
    assert compute_batch_size(4096, 512 << 20, 2) == 8192
    assert compute_batch_size(4096, 256 << 20, 2) == 4096
    assert compute_batch_size(10_000_000, 64 << 20) == FEWEST_DOCUMENTS
    assert compute_batch_size(10, 512 << 20) == MOST_DOCUMENTS
    assert compute_batch_size(None, 512 << 20, 2) == compute_batch_size(4096, 512 << 20, 2)
