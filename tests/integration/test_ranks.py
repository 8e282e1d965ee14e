"""Ranks as real processes: one prepares, all read the same; leaders that fail, die or stop."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROCESS, PREPARE = HERE / "rank_process.py", HERE / "rank_prepare.py"
LAUNCHERS = {
    "torchrun": lambda rank, size: {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size},
    "slurm": lambda rank, size: {"SLURM_PROCID": rank, "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0},
    "openmpi": lambda rank, size: {"OMPI_COMM_WORLD_RANK": rank},
    "mpich": lambda rank, size: {"PMI_RANK": rank},
    "lock": lambda rank, size: {},
}
OURS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM", "OMPI", "PMI", "TORCHELASTIC")


class Ranks:
    """Some ranks on one output directory."""

    def __init__(self, root, launcher="torchrun"):
        self.root = Path(root) / "data"
        self.log = Path(root) / "log"
        self.launcher = launcher
        self.processes = []

    def start(self, rank, size=8, *, units=4, unit_seconds=0.05, environ=None, **options):
        settings = {"units": units, "unit_seconds": unit_seconds, **options}
        variables = LAUNCHERS[self.launcher](rank, size) if environ is None else environ
        return self.launch([PROCESS, self.root, self.log, json.dumps(settings)], variables)

    def launch(self, arguments, variables):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        path = os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])
        process = subprocess.Popen(
            [sys.executable, "-W", "error", *map(str, arguments)],
            env={**clean, **{k: str(v) for k, v in variables.items()}, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def results(self, timeout=90):
        until = time.monotonic() + timeout
        answers = []
        for process in self.processes:
            try:
                out, self.stderr = process.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                for other in self.processes:
                    other.kill()
                raise
            if process.returncode == 0:
                answers.append(json.loads(out))
            else:
                assert process.returncode == -signal.SIGKILL, self.stderr
        return answers

    def words(self, word):
        return [line.split()[1] for line in self.log.read_text().splitlines() if line.startswith(word)]

    def wait_for(self, word, timeout=20):
        until = time.monotonic() + timeout
        while not self.log.exists() or not self.words(word):
            assert time.monotonic() < until, f"no {word} in {timeout} s"
            time.sleep(0.01)
        return int(self.words(word)[0])


def all_equal(answers, count):
    assert len(answers) == count, answers
    assert len({answer.get("hash") for answer in answers}) == 1, answers
    assert answers[0]["tokens"] > 0


def corpus(root, documents=300):
    path = Path(root) / "corpus.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": f"document {n} " * 20}) + "\n" for n in range(documents)))
    return path


def really(root, launcher, generator, *, kill):
    """Eight ranks call the real `prepare`; the leader may be killed at a random moment."""
    # A leader that is to be killed needs something to do for longer than it may live.
    source, ranks = corpus(root, 1500 if kill else 300), Ranks(root, launcher)
    for rank in range(8):
        delay = generator.random() * 0.5
        ranks.launch([PREPARE, source, ranks.root, delay, 4096], LAUNCHERS[launcher](rank, 8))
    if kill:
        progress = ranks.root / "progress.json"
        while not progress.exists():
            time.sleep(0.002)
        pid = json.loads(progress.read_text())["pid"]
        time.sleep(generator.random() * 0.4)
        os.kill(pid, signal.SIGKILL)
        assert not (ranks.root / "manifest.json").exists(), "the leader was too quick to be killed"
    return ranks.results()


@pytest.mark.parametrize("launcher", ["torchrun", "lock"])
def test_eight_ranks_prepare_at_once(tmp_path, launcher):
    all_equal(really(tmp_path, launcher, random.Random(launcher), kill=False), 8)
    assert not list((tmp_path / "data").glob(".l*"))


def test_without_ranks_another_process_goes_on_where_one_was_killed(tmp_path):
    all_equal(really(tmp_path, "lock", random.Random(1), kill=True), 7)


def test_a_killed_leader_ends_every_rank_and_the_same_command_resumes(tmp_path):
    answers = really(tmp_path, "torchrun", random.Random(1), kill=True)
    assert [answer["error"] for answer in answers] == ["LeaderError"] * 7
    assert all("Run the same command again" in answer["message"] for answer in answers)
    done = len(list((tmp_path / "data" / "receipts").glob("*")))
    again = Ranks(tmp_path)
    for rank in range(2):
        again.launch(
            [PREPARE, tmp_path / "corpus.jsonl", again.root, 0, 4096], LAUNCHERS["torchrun"](rank, 2)
        )
    all_equal(again.results(), 2)
    assert done < len(list((tmp_path / "data" / "receipts").glob("*")))


def test_a_bad_record_and_a_rank_with_other_settings(tmp_path):
    source, ranks = corpus(tmp_path), Ranks(tmp_path)
    with source.open("a") as file:
        file.write("{broken\n")
    for rank in range(3):
        ranks.launch(
            [PREPARE, source, ranks.root, 0, 4096 if rank < 2 else 8192], LAUNCHERS["torchrun"](rank, 3)
        )
    leader, waiter, other = ranks.results()
    assert leader["error"] == "InputError"
    assert waiter["error"] == "LeaderError"
    assert leader["message"] in waiter["message"]
    assert "rank 0" in waiter["message"]
    assert other["error"] in {"ConfigError", "ResumeError"}
    assert "output.unit_bytes" in other["message"]


def test_the_leader_fails_and_every_waiter_names_the_cause(tmp_path):
    ranks = Ranks(tmp_path)
    for rank in range(4):
        ranks.start(rank, unit_seconds=0.4, fail_at=2, delay=0 if rank < 3 else 1.0)
    answers = ranks.results(timeout=20)
    assert [answer["error"] for answer in answers] == ["OSError", "LeaderError", "LeaderError", "LeaderError"]
    assert all(
        "rank 0" in a["message"] and "OSError: disk on fire at unit 2" in a["message"] for a in answers[1:]
    )
    assert len(ranks.words("lead")) == 1


def test_a_failure_of_yesterday_is_not_one_of_today(tmp_path):
    first = Ranks(tmp_path)
    first.start(0, fail_at=0)
    assert first.results()[0]["error"] == "OSError"
    again = Ranks(tmp_path)
    again.start(1)
    time.sleep(0.5)
    again.start(0)
    all_equal(again.results(), 2)


def test_ranks_that_disagree_say_in_what(tmp_path):
    ranks = Ranks(tmp_path)
    ranks.start(0, unit_seconds=1)
    ranks.start(1, context_length=16)
    ranks.start(2, context_length=32)
    answers = ranks.results()
    assert "hash" in answers[0]
    assert [answer["error"] for answer in answers[1:]] == ["ConfigError", "ConfigError"]
    assert "packing.context_length is 16 here and 8 on rank 0" in answers[1]["message"]
    assert "packing.context_length is 32 here and 8 on rank 0" in answers[2]["message"]


def test_a_stopped_leader_is_not_waited_for_for_ever(tmp_path):
    ranks = Ranks(tmp_path)
    ranks.start(0, unit_seconds=60)
    ranks.start(1, execution={"stall_timeout": 4})
    leader = ranks.wait_for("lead")
    time.sleep(1.5)
    os.kill(leader, signal.SIGSTOP)
    out, _ = ranks.processes[1].communicate(timeout=30)
    os.kill(leader, signal.SIGKILL)
    ranks.processes[0].communicate()
    assert "no sign of life for 4 s" in json.loads(out)["message"]


def test_ranks_count_per_host_without_a_shared_file_system(tmp_path):
    hosts = [Ranks(tmp_path / name) for name in ("one", "two")]
    for host, ranks in enumerate(hosts):
        ranks.root.parent.mkdir()
        for local in range(2):
            environ = {"RANK": host * 2 + local, "LOCAL_RANK": local, "WORLD_SIZE": 4}
            ranks.start(0, environ=environ, execution={"shared_filesystem": False})
    for ranks in hosts:
        all_equal(ranks.results(), 2)
        assert len(ranks.words("lead")) == 1


def test_waiters_write_nothing(tmp_path):
    ranks = Ranks(tmp_path)
    ranks.start(1)
    ranks.start(2)
    time.sleep(1.5)
    assert not ranks.root.exists()
    ranks.start(0)
    all_equal(ranks.results(), 3)


def test_no_collective_and_no_network(tmp_path):
    ranks = Ranks(tmp_path)
    for rank in range(3):
        ranks.start(rank, unit_seconds=0.5, poison=True)
    all_equal(ranks.results(), 3)
