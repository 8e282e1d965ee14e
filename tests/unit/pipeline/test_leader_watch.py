"""Which variable gives the rank, and what a waiting rank concludes from the leader's status file."""

import json
import logging

import pytest

from byte_tokenizer import ByteTokenizer
from tokenmill.errors import ConfigError, LeaderError
from tokenmill.pipeline import ranks
from tokenmill.pipeline.prepare import prepare
from tokenmill.pipeline.ranks import STATUS, find_rank, is_alone, lead_or_wait
from tokenmill.settings.schema import ExecutionConfig

LEADER = {"token": "x", "host": "far", "pid": 1, "fields": {}}


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"RANK": "0", "LOCAL_RANK": "3"}, 0),
        ({"RANK": "5", "SLURM_PROCID": "0"}, 5),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "0"}, 2),
        ({"OMPI_COMM_WORLD_RANK": "1"}, 1),
        ({"PMI_RANK": "4"}, 4),
        ({"LOCAL_RANK": "1"}, 1),
        ({"RANK": "no number"}, None),
        ({}, None),
    ],
)
def test_rank(environ, rank):
    assert find_rank(environ) == rank


def test_rank_per_host_without_a_shared_file_system():
    assert find_rank({"RANK": "8", "LOCAL_RANK": "0"}, shared_filesystem=False) == 0
    assert find_rank({"RANK": "8"}, shared_filesystem=False) is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, True),
        ({"RANK": "0", "WORLD_SIZE": "1"}, True),
        ({"SLURM_PROCID": "0"}, True),
        ({"RANK": "0", "WORLD_SIZE": "2"}, False),
        ({"PMI_RANK": "1"}, False),
    ],
)
def test_is_alone(environ, expected):
    assert is_alone(environ) is expected


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """Return a watch of rank 1, a function that writes the status, and one that lets time pass."""
    clock = [1000.0]
    monkeypatch.setattr(ranks.time, "monotonic", lambda: clock[0])

    def write(**values):
        (tmp_path / STATUS).write_text(json.dumps(LEADER | values))

    def later(seconds):
        clock[0] += seconds

    def make(fields=None, stall_timeout=600.0):
        return ranks._Watch(str(tmp_path), 1, fields or {}, stall_timeout)

    return make, write, later


def test_a_leader_that_never_comes(watch):
    make, _, later = watch
    seen = make()
    later(599)
    seen.check()
    later(2)
    with pytest.raises(LeaderError, match=r"rank 0 has not begun to prepare .* within 600 s"):
        seen.check()


def test_a_calm_line_every_30_seconds(watch, caplog):
    make, _, later = watch
    seen = make()
    with caplog.at_level(logging.INFO, "tokenmill.ranks"):
        for _ in range(14):
            later(5)
            seen.check()
    assert [record.getMessage() for record in caplog.records] == [
        f"[Rank 1] Still waiting for rank 0 after {seconds}s (nothing done yet)" for seconds in (30, 60)
    ]


@pytest.mark.parametrize("rank", ["0", None])
def test_a_single_process_just_leads(tmp_path, monkeypatch, rank, caplog):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    with caplog.at_level(logging.INFO, "tokenmill.ranks"):
        made = lead_or_wait(tmp_path, {}, ExecutionConfig(), find=lambda: None, lead=lambda: [1, 2, 3])
    assert made == [1, 2, 3]
    logged = [record.getMessage() for record in caplog.records][:2]
    expected = [f"[Rank 0] Saving final dataset to: {tmp_path}", "[Rank 0] Conversion completed: 3 samples"]
    assert logged == (expected if rank else [])
    assert list(tmp_path.iterdir()) == []


def test_several_ranks_cannot_start_afresh(tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("some text")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="for one process"):
        prepare([str(tmp_path / "in.txt")], ByteTokenizer(), str(tmp_path / "out"), fresh=True)
