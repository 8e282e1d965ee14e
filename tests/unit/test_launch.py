"""Which variable decides who leads, and what a rank says while it waits."""

import json
import logging
import threading
import time
from pathlib import Path

import pytest

from byte_tokenizer import ByteTokenizer
from tokenmill.base.console.logs import PlainFormatter
from tokenmill.base.durable import ReplacedError
from tokenmill.errors import ConfigError, LeaderError
from tokenmill.pipeline import lease, waiting
from tokenmill.pipeline.launch import find_launch, find_start_time, is_alone, read_host_clock
from tokenmill.pipeline.lease import FAILURE, MARKER, Lease
from tokenmill.pipeline.prepare import prepare
from tokenmill.pipeline.ranks import lead_or_wait
from tokenmill.pipeline.waiting import LeaderView
from tokenmill.settings.schema import ExecutionConfig


@pytest.mark.parametrize(
    ("environ", "rank", "decides"),
    [
        ({"RANK": "0", "LOCAL_RANK": "3"}, 0, "RANK"),
        ({"RANK": "5", "SLURM_PROCID": "0"}, 5, "RANK"),
        ({"SLURM_PROCID": "2", "SLURM_LOCALID": "0"}, 2, "SLURM_PROCID"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, 1, "OMPI_COMM_WORLD_RANK"),
        ({"PMI_RANK": "4"}, 4, "PMI_RANK"),
        ({"LOCAL_RANK": "1"}, 1, "LOCAL_RANK"),
        ({"RANK": "no number"}, None, "lock"),
        ({}, None, "lock"),
    ],
)
def test_who_leads(environ, rank, decides):
    launch = find_launch(environ)
    assert (launch.rank, launch.decides) == (rank, decides)
    assert launch.leads == (rank == 0)


def test_per_host_without_a_shared_file_system():
    environ = {"RANK": "8", "LOCAL_RANK": "0"}
    assert find_launch(environ, shared_filesystem=False).leads
    assert not find_launch(environ).leads
    assert find_launch({"RANK": "8"}, shared_filesystem=False).rank is None


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
def test_who_is_alone(environ, expected):
    assert is_alone(environ) is expected


def test_a_launch_has_one_name():
    first = find_launch({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "RANK": "0"})
    other = find_launch({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "RANK": "1"})
    again = find_launch({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "TORCHELASTIC_RESTART_COUNT": "1"})
    assert first.name == other.name != again.name
    assert find_launch({"TORCHELASTIC_RUN_ID": "none"}).name == ""


def test_this_process_started_before_now():
    assert 0 < find_start_time() < read_host_clock()


def test_the_lock_is_for_one(tmp_path):
    first, second = (Lease(tmp_path, find_launch({"RANK": "0"}), {}) for _ in range(2))
    assert first.take()
    assert not second.take()
    with first.lead():
        assert json.loads((tmp_path / MARKER).read_text())["rank"] == 0
    first.release()
    assert list(tmp_path.iterdir()) == []
    assert second.take()
    second.release()


def test_without_locks_a_leader_that_was_stopped_before_a_sign_of_life_does_not_take_its_successors_place(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(lease, "try_lock", lambda file: None)
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.005)
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")  # `guard` has one leader per directory and process
    first, second = (Lease(tmp_path / name, find_launch({"RANK": "0"}), {}) for name in ("data", "link"))
    replace, stopped = Path.replace, []

    def stop(path, target):
        if threading.current_thread().name == "tokenmill-leader":
            stopped.append(lambda: replace(path, target))
        else:
            replace(path, target)

    monkeypatch.setattr(Path, "replace", stop)
    assert first.take()
    with first.lead():
        time.sleep(0.05)
        assert second.take()
        with second.lead():
            for go_on in stopped[:1]:
                go_on()
            time.sleep(0.05)
            second.check()
            with pytest.raises(ReplacedError):
                first.check()
    first.release()
    second.release()


def test_without_locks_a_dataset_that_was_published_before_the_first_sign_of_life_is_taken(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(lease, "try_lock", lambda file: None)
    monkeypatch.setenv("RANK", "0")
    found = iter([None, [1, 2]])
    assert lead_or_wait(
        tmp_path, {}, ExecutionConfig(), find=lambda: next(found), lead=lambda: pytest.fail("it led")
    ) == [1, 2]


def watching(root, monkeypatch, **execution):
    clock = [1000.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: clock[0])
    return LeaderView(root, find_launch({"RANK": "1"}), {}, ExecutionConfig(**execution)), clock


def test_a_leader_of_another_host_gets_more_time(tmp_path, monkeypatch):
    view, clock = watching(tmp_path, monkeypatch)
    view.leader_is_gone()
    marker = {"token": "x", "beat": 1, "rank": 0, "host": "far", "pid": 1, "fields": {}}
    (tmp_path / MARKER).write_text(json.dumps(marker))
    assert not view.leader_is_gone()
    clock[0] += 10
    assert not view.leader_is_gone()
    clock[0] += 11
    assert view.leader_is_gone()


def test_a_leader_that_never_comes_is_waited_for_a_minute(tmp_path, monkeypatch):
    view, clock = watching(tmp_path, monkeypatch)
    assert not view.leader_is_gone()
    clock[0] += 59
    assert not view.leader_is_gone()
    clock[0] += 2
    assert view.leader_is_gone()


def test_a_leader_that_lives_but_gets_nowhere(tmp_path, monkeypatch):
    view, clock = watching(tmp_path, monkeypatch, stall_timeout=100)
    (tmp_path / "progress.json").write_text(
        json.dumps({"phase": "tokenizing", "documents": 5, "bytes": 1, "bytes_total": 4})
    )

    def look_for_long():
        for beat in range(100):
            marker = {"token": "x", "beat": beat, "rank": 0, "host": "far", "pid": 1, "fields": {}}
            (tmp_path / MARKER).write_text(json.dumps(marker))
            clock[0] += 10
            view.leader_is_gone()
            view.check_stalled()

    with pytest.raises(LeaderError, match=r"rank 0 .* no progress for 600 s .*tokenizing: 5 documents, 25 %"):
        look_for_long()


def test_one_calm_line_now_and_then(tmp_path, monkeypatch, caplog):
    view, clock = watching(tmp_path, monkeypatch)
    with caplog.at_level(logging.INFO, "tokenmill.ranks"):
        for _ in range(14):
            clock[0] += 5
            view.leader_is_gone()
    assert [record.getMessage() for record in caplog.records] == [
        "[Rank 1] Still waiting for the leader after 30s (nothing done yet)",
        "[Rank 1] Still waiting for the leader after 60s (nothing done yet)",
    ]


def test_a_failure_of_this_launch_ends_even_a_late_rank(tmp_path):
    failure = {
        "token": "x",
        "rank": 0,
        "launch": "",
        "pid": 7,
        "cause": "OSError: full",
        "exit_code": 75,
        "fields": {},
    }
    from tokenmill.pipeline.launch import identify_host

    (tmp_path / FAILURE).write_text(json.dumps({**failure, "host": identify_host(), "at": read_host_clock()}))
    with pytest.raises(LeaderError, match="OSError: full") as raised:
        LeaderView(tmp_path, find_launch({"RANK": "1"}), {}, ExecutionConfig()).leader_is_gone()
    assert raised.value.exit_code == 75


@pytest.mark.parametrize("rank", ["0", None])
def test_a_single_process_just_leads(tmp_path, monkeypatch, rank, caplog):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    began = time.monotonic()
    with caplog.at_level(logging.INFO, "tokenmill.ranks"):
        made = lead_or_wait(tmp_path, {}, ExecutionConfig(), find=lambda: None, lead=lambda: [1, 2, 3])
    assert made == [1, 2, 3]
    assert time.monotonic() - began < 2
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == (
        [f"[Rank 0] Preparing the dataset in: {tmp_path}", "[Rank 0] Preparation completed: 3 samples"]
        if rank
        else []
    )


def test_a_label_is_not_said_twice():
    record = logging.LogRecord("tokenmill", logging.INFO, "", 0, "[Rank 1] Waiting", None, None)
    assert PlainFormatter(1).format(record) == "INFO: [Rank 1] Waiting"
    record = logging.LogRecord("tokenmill", logging.INFO, "", 0, "Full", None, None)
    assert PlainFormatter(1).format(record) == "INFO: [Rank 1] Full"


def test_several_ranks_cannot_start_afresh(tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("some text")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="for one process"):
        prepare(
            inputs=[str(tmp_path / "in.txt")],
            tokenizer=ByteTokenizer(),
            output=str(tmp_path / "out"),
            fresh=True,
        )
