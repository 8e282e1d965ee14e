"""Which variable gives the rank, and what a waiting rank concludes from the leader's status file."""

import logging

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.errors import ConfigError, LeaderError
from tokenmill.pipeline.prepare import prepare
from tokenmill.pipeline.ranks import find_rank, lead_or_wait
from tokenmill.settings.schema import ExecutionConfig


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


def test_a_leader_that_never_comes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    wait = ExecutionConfig(stall_timeout=1.5)
    with pytest.raises(LeaderError, match=r"rank 0 has not begun to prepare .* within 2 s"):
        lead_or_wait(tmp_path, str(tmp_path), wait, find=lambda: None, lead=list)


@pytest.mark.parametrize("rank", ["0", None])
def test_a_single_process_just_leads(tmp_path, monkeypatch, rank, caplog):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    with caplog.at_level(logging.INFO, "tokenmill.ranks"):
        made = lead_or_wait(
            tmp_path, str(tmp_path), ExecutionConfig(), find=lambda: None, lead=lambda: [1, 2, 3]
        )
    assert made == [1, 2, 3]
    logged = [record.getMessage() for record in caplog.records][:2]
    expected = [f"[Rank 0] Saving final dataset to: {tmp_path}", "[Rank 0] Conversion completed: 3 samples"]
    assert logged == (expected if rank else [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rank", ["0", "1"])
def test_several_ranks_cannot_start_afresh(tmp_path, monkeypatch, rank):
    (tmp_path / "in.txt").write_text("some text")
    given = [str(tmp_path / "in.txt")], ByteTokenizer(), str(tmp_path / "out")
    made = prepare(*given)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="for one process"):
        prepare(*given, fresh=True)
    assert tokenmill.open(tmp_path / "out").content_hash == made.content_hash
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    prepare(*given, fresh=True)
