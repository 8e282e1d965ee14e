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
LAUNCHERS = {
    "torchrun": lambda rank, size: {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size},
    "lock": lambda rank, size: {},
}
OURS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM", "OMPI", "PMI", "TORCHELASTIC")


class Ranks:
    """Some ranks on one output directory."""

    def __init__(self, root, launcher="torchrun", documents=300):
        self.root = Path(root) / "data"
        self.launcher = launcher
        self.processes = []
        self.source = Path(root) / "corpus.jsonl"
        if not self.source.exists():
            texts = (f"document {n} " * 20 for n in range(documents))
            self.source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def start(self, rank, size=8, *, environ=None, **options):
        variables = LAUNCHERS[self.launcher](rank, size) if environ is None else environ
        clean = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        path = os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])
        arguments = [HERE / "rank_prepare.py", self.source, self.root, json.dumps(options)]
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

    def find_leader(self):
        """The process that works, once it does."""
        until = time.monotonic() + 60
        while not (self.root / "progress.json").exists():
            assert time.monotonic() < until
            time.sleep(0.002)
        return json.loads((self.root / "progress.json").read_text())["pid"]


def all_equal(answers, count):
    assert len(answers) == count, answers
    assert len({answer.get("hash") for answer in answers}) == 1, answers
    assert answers[0]["tokens"] > 0


def run_ranks(root, launcher, generator, *, kill, size=8):
    """Several ranks; the leader may be killed at a random moment."""
    # A leader that is to be killed needs something to do for longer than it may live.
    ranks = Ranks(root, launcher, 1500 if kill else 300)
    for rank in range(size):
        ranks.start(rank, size, delay=generator.random() * 0.5, stall_timeout=3 * size)
    if kill:
        leader = ranks.find_leader()
        time.sleep(generator.random() * 0.4)
        os.kill(leader, signal.SIGKILL)
        assert not (ranks.root / "manifest.json").exists(), "the leader was too quick to be killed"
    return ranks.results(12 * size)


@pytest.mark.parametrize("launcher", ["torchrun", "lock"])
def test_eight_ranks_prepare_at_once(tmp_path, launcher):
    answers = run_ranks(tmp_path, launcher, random.Random(launcher), kill=False)
    all_equal(answers, 8)
    assert sorted(answer["processed"] for answer in answers) == [0] * 7 + [300]
    assert not list((tmp_path / "data").glob(".l*"))


def test_without_ranks_another_process_goes_on_where_one_was_killed(tmp_path):
    all_equal(run_ranks(tmp_path, "lock", random.Random(1), kill=True), 7)


MANY = [pytest.param(64, seed, marks=[pytest.mark.deep, pytest.mark.timeout(3600)]) for seed in range(6)]


@pytest.mark.parametrize(("size", "seed"), [(8, 1), *MANY])
def test_a_killed_leader_ends_every_rank_and_the_same_command_resumes(tmp_path, size, seed):
    answers = run_ranks(tmp_path, "torchrun", random.Random(seed), kill=True, size=size)
    assert [answer["error"] for answer in answers] == ["LeaderError"] * (size - 1)
    assert all("Run the same command again" in answer["message"] for answer in answers)
    done = len(list((tmp_path / "data" / "receipts").glob("*")))
    again = Ranks(tmp_path)
    for rank in range(2):
        again.start(rank, 2)
    all_equal(again.results(), 2)
    assert done < len(list((tmp_path / "data" / "receipts").glob("*")))


def test_a_leader_that_fails_is_named_by_every_waiter_and_not_by_the_next_launch(tmp_path):
    ranks = Ranks(tmp_path)
    # In the first unit, so that the next launch may have other settings.
    ranks.source.write_bytes(ranks.source.read_bytes().replace(b'{"text": "document 9 ', b"{broken", 1))
    for rank in range(4):
        ranks.start(rank, pause=0.2, delay=0 if rank < 3 else 4)
    leader, *waiters = ranks.results(timeout=60)
    assert leader["error"] == "InputError"
    for waiter in waiters:
        assert waiter["error"] == "LeaderError"
        assert "rank 0" in waiter["message"]
        assert leader["message"] in waiter["message"]
    again = Ranks(tmp_path)
    again.start(1, on_error="skip")
    time.sleep(0.5)
    again.start(0, on_error="skip")
    all_equal(again.results(), 2)


def test_ranks_that_disagree_say_in_what(tmp_path):
    ranks = Ranks(tmp_path)
    ranks.start(0, pause=0.02, min_chars=8)
    ranks.start(1, pause=0.02, min_chars=16)
    ranks.start(2, pause=0.02, min_chars=32)
    answers = ranks.results()
    assert "hash" in answers[0]
    assert [answer["error"] for answer in answers[1:]] == ["ResumeError", "ResumeError"]
    assert all("min_chars" in answer["message"] for answer in answers[1:])


def test_a_stopped_leader_is_not_waited_for_for_ever(tmp_path):
    ranks = Ranks(tmp_path)
    ranks.start(0, pause=1)
    ranks.start(1, pause=1, stall_timeout=4)
    leader = ranks.find_leader()
    time.sleep(1.5)
    os.kill(leader, signal.SIGSTOP)
    out, _ = ranks.processes[1].communicate(timeout=30)
    os.kill(leader, signal.SIGKILL)
    ranks.processes[0].communicate()
    assert "no sign of life for 4 s" in json.loads(out)["message"]


def test_ranks_count_per_host_without_a_shared_file_system(tmp_path):
    hosts = [tmp_path / name for name in ("one", "two")]
    launched = []
    for host, root in enumerate(hosts):
        root.mkdir()
        launched.append(Ranks(root))
        for local in range(2):
            environ = {"RANK": host * 2 + local, "LOCAL_RANK": local, "WORLD_SIZE": 4}
            launched[-1].start(0, environ=environ, shared_filesystem=False)
    for ranks in launched:
        all_equal(ranks.results(), 2)


def test_waiters_write_nothing_and_need_no_collective(tmp_path):
    ranks = Ranks(tmp_path)
    ranks.start(1, poison=True)
    ranks.start(2, poison=True)
    time.sleep(3)
    assert not ranks.root.exists()
    ranks.start(0, poison=True)
    all_equal(ranks.results(), 3)
