"""What is decided in the last look before a job: batch size, and where a shard is gathered."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from tokenmill.base.hardware.cpu import Cores
from tokenmill.base.hardware.disk import DiskSpeed
from tokenmill.base.hardware.machine import Machine
from tokenmill.base.hardware.memory import GB, Memory
from tokenmill.jobs.executors.local import LocalExecutor
from tokenmill.jobs.prepare import readiness
from tokenmill.sources.first_documents import Sample

EXECUTOR = LocalExecutor(threads=2, memory_budget=512 << 20)
SLOW = DiskSpeed(write=20e6, read=50e6, flush_seconds=0.05)
FAST = DiskSpeed(write=900e6, read=900e6, flush_seconds=0.001)


def machine(gigabytes):
    return Machine(Cores(2, 2, 2, None, 1, ""), Memory(gigabytes * GB, gigabytes * GB, None, "free"))


def job(keep_in_memory=None):
    execution = SimpleNamespace(keep_in_memory=keep_in_memory)
    return SimpleNamespace(root=Path("nowhere"), config=SimpleNamespace(execution=execution))


def test_batch_size_follows_the_documents():
    assert readiness.sized(EXECUTOR, Sample(["a"], 4096), machine(24)).batch_size == 8192
    assert readiness.sized(EXECUTOR, Sample(["a"], 40960), machine(24)).batch_size == 819


def test_a_batch_that_memory_cannot_hold_is_taken_with_a_word(caplog):
    logging.getLogger("tokenmill").propagate = True
    asked = LocalExecutor(threads=2, memory_budget=512 << 20, batch_size=20_000_000)
    with caplog.at_level(logging.WARNING, "tokenmill"):
        assert readiness.sized(asked, Sample(["a"], 4096), machine(24)) is asked
    assert "batch_size 20000000 of documents of 4.1 kB is more than memory holds" in caplog.text


@pytest.mark.parametrize(
    ("speed", "gigabytes", "wish", "kept"),
    [(SLOW, 24, None, True), (FAST, 24, None, False), (SLOW, 24, False, False), (SLOW, 8, None, False)],
    ids=["slow disk", "fast disk", "as the user says", "little memory"],
)
def test_slow_disks_get_whole_shards(monkeypatch, speed, gigabytes, wish, kept):
    monkeypatch.setattr(readiness.disk, "probe", lambda *_: speed)
    found = readiness.suited_to_disk(EXECUTOR, job(wish), machine(gigabytes))
    assert found.keep_in_memory is kept


def test_a_disk_that_cannot_be_measured_is_left_to_the_job(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(readiness.disk, "probe", full)
    assert readiness.suited_to_disk(EXECUTOR, job(), machine(24)) is EXECUTOR
