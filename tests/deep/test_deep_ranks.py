"""Many ranks on one output directory: leaders that die, stop and come back, locks that do not work, clocks that jump."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from harness import DEVELOPER_WORDS, STOP, Fault, clean_environment, leftovers, tree
from jobs import JOBS

COMMAND = [sys.executable, "-m", "tokenmill"]


class Ranks:
    """Real commands, each a process of its own, with the shim loaded."""

    def __init__(self, campaign, job="prepare-tokenmill"):
        self.made = campaign.prepared(JOBS[job])
        self.out = campaign.new_place() / "out"
        self.environment = campaign.environment | {
            "LD_PRELOAD": str(campaign.shim),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self.processes = []

    def start(self, rank, size, *options, **environment):
        launcher = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size} if rank is not None else {}
        said = self.out.parent / f"rank-{len(self.processes)}"
        argv = [*COMMAND, *self.made.job.argv(self.made.inputs, self.out), *options]
        values = {name: str(value) for name, value in (self.environment | launcher | environment).items()}
        with said.open("wb") as file:
            process = subprocess.Popen(
                [str(part) for part in argv], env=clean_environment(**values), stderr=file, stdout=file
            )
        process.said = said
        self.processes.append(process)
        return process

    def wait(self, timeout=300):
        """How each ended; None for one that did not."""
        until = time.monotonic() + timeout
        codes = []
        for process in self.processes:
            try:
                codes.append(process.wait(max(0.1, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(None)
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        return codes

    def wait_for_leader(self, timeout=120):
        """The leader's process number, from its sign of life."""
        marker, until = self.out / ".leader.alive.json", time.monotonic() + timeout
        while time.monotonic() < until:
            try:
                return json.loads(marker.read_text())["pid"]
            except (OSError, ValueError):
                time.sleep(0.002)
        raise AssertionError("nobody led")

    def judge(self, codes, allowed=()):
        """What broke a promise; `allowed` are exit codes that a rank may end with beside 0."""
        problems = []
        for process, code in zip(self.processes, codes, strict=True):
            said = process.said.read_text(errors="replace")
            if code is None:
                problems.append(("hang", f"a rank did not end: {said[-200:]}"))
            elif any(word in said for word in DEVELOPER_WORDS):
                problems.append(("traceback", said[-300:]))
            elif code not in {0, *allowed}:
                problems.append(("wrong", f"a rank ended with exit {code}: {said[-300:]}"))
        if tree(self.out) != self.made.clean:
            problems.append(("wrong", "other bytes than one process alone"))
        if leftovers(self.out):
            problems.append(("litter", ", ".join(leftovers(self.out))))
        return problems


def kill_leader(campaign, tally, size, seed, **environment):
    """So many ranks; the leader is killed at a random moment, and another takes over."""
    ranks, chosen = Ranks(campaign), random.Random(seed)
    for rank in range(size):
        ranks.start(rank if seed % 2 else None, size, **environment)
    leader = ranks.wait_for_leader()
    time.sleep(chosen.uniform(0, 0.3))
    os.kill(leader, signal.SIGKILL)
    codes = ranks.wait()
    # Killed after it had published, the leader leaves nothing to take over: that is fine as well.
    return tally.add(
        f"{size} ranks, seed {seed}, {environment}", ranks.judge(codes, allowed=(-signal.SIGKILL,))
    )


def stop_leader(campaign, tally, nth, *, locks):
    """The leader stops at its Nth write for longer than anybody waits, is replaced, and goes on."""
    ranks = Ranks(campaign)
    environment = {} if locks else {"FAULT_NO_LOCKS": 1}
    leader = ranks.start(0, 3, "--stall-timeout", 8, FAULT=Fault("write", nth, STOP), **environment)
    for rank in (1, 2):
        ranks.start(rank, 3, "--stall-timeout", 8, **environment)
    others = ranks.processes[1:]
    deadline = time.monotonic() + 120
    while any(process.poll() is None for process in others) and time.monotonic() < deadline:
        time.sleep(0.05)
    published = (ranks.out / "manifest.json").exists()
    before = stamps(ranks.out) if published else None
    leader.send_signal(signal.SIGCONT)
    codes = ranks.wait(120)
    problems = ranks.judge(codes, allowed=(1,))
    if published and stamps(ranks.out) != before:
        problems.append(("wrong", "the leader that was replaced wrote after it came back"))
    if not locks and not published:
        problems.append(("wrong", "nobody took over from a leader that had stopped"))
    return tally.add(f"leader stopped at write {nth}, {'with' if locks else 'without'} locks", problems)


def stamps(root):
    """What changes when a file of the dataset is written again."""
    content = tree(root)
    return {name: ((root / name).stat().st_ino, (root / name).stat().st_mtime_ns) for name in content}


def test_eight_ranks_whose_leader_is_killed(campaign, tally):
    assert not kill_leader(campaign, tally("ranks, a few"), 8, 1)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(6))
def test_sixty_four_ranks_whose_leader_is_killed(campaign, tally, seed):
    assert not kill_leader(campaign, tally("64 ranks, leader killed"), 64, seed)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no-locks"])
@pytest.mark.parametrize("nth", [6, 12, 20, 30, 40, 50])
def test_a_leader_that_stops_and_comes_back(campaign, tally, nth, locks):
    assert not stop_leader(campaign, tally("leader stopped and continued"), nth, locks=locks)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_no_locks(campaign, tally, seed):
    assert not kill_leader(campaign, tally("8 ranks without locks, leader killed"), 8, seed, FAULT_NO_LOCKS=1)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("jump", [3600, -3600, 86_400 * 365])
def test_clocks_that_jump(campaign, tally, jump):
    assert not kill_leader(campaign, tally("8 ranks, clocks that jump"), 8, jump % 7, FAULT_CLOCK=jump)
