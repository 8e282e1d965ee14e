"""What is decided in the last look before a job: batch size, and where a shard is gathered."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from tokenmill.base.hardware.cpu import Cores
from tokenmill.base.hardware.disk import DiskSpeed
from tokenmill.base.hardware.machine import Machine
from tokenmill.base.hardware.memory import GB, Memory
from tokenmill.pipeline import readiness
from tokenmill.sources.first_documents import FirstDocuments

SLOW = DiskSpeed(write=20e6, read=50e6, flush_seconds=0.05)
FAST = DiskSpeed(write=900e6, read=900e6, flush_seconds=0.001)


def machine(gigabytes):
    return Machine(Cores(2, 2, 2, None, 1, ""), Memory(gigabytes * GB, gigabytes * GB, None, "free"))


def run(batch_size=None):
    execution = SimpleNamespace(batch_size=batch_size)
    job = SimpleNamespace(root=Path("nowhere"), config=SimpleNamespace(execution=execution))
    return SimpleNamespace(job=job, threads=2, memory_budget=512 << 20)


def test_batch_size_follows_the_documents():
    assert readiness.choose_batch_size(run(), FirstDocuments(["a"], 4096), machine(24)) == 8192
    assert readiness.choose_batch_size(run(), FirstDocuments(["a"], 40960), machine(24)) == 819


def test_a_batch_that_memory_cannot_hold_is_taken_with_a_word(caplog):
    logging.getLogger("tokenmill").propagate = True
    asked = 20_000_000
    with caplog.at_level(logging.WARNING, "tokenmill"):
        assert readiness.choose_batch_size(run(asked), FirstDocuments(["a"], 4096), machine(24)) == asked
    assert "batch_size 20000000 with documents of 4.1 kB is more than memory can hold" in caplog.text


@pytest.mark.parametrize(
    ("speed", "gigabytes", "kept"),
    [(SLOW, 24, True), (FAST, 24, False), (SLOW, 8, False)],
    ids=["slow disk", "fast disk", "little memory"],
)
def test_slow_disks_get_whole_shards(monkeypatch, speed, gigabytes, kept):
    monkeypatch.setattr(readiness.disk, "probe", lambda *_: speed)
    assert readiness.choose_keep_in_memory(run().job, machine(gigabytes)) is kept


def test_a_disk_that_cannot_be_measured_is_left_to_the_job(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(readiness.disk, "probe", full)
    assert not readiness.choose_keep_in_memory(run().job, machine(24))
