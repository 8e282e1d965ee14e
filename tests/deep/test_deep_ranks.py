"""Many ranks on one output directory whose leader dies."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from harness import DEVELOPER_WORDS, clean_environment, leftovers, tree
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
        marker, until = self.out / ".leader.json", time.monotonic() + timeout
        while time.monotonic() < until:
            try:
                return json.loads(marker.read_text())["pid"]
            except (OSError, ValueError):
                time.sleep(0.002)
        raise AssertionError("no rank led")

    def judge(self, codes):
        """Return the promises that were broken."""
        problems = []
        for process, code in zip(self.processes, codes, strict=True):
            said = process.said.read_text(errors="replace")
            if code is None:
                problems.append(("hang", f"a rank did not end: {said[-200:]}"))
            elif any(word in said for word in DEVELOPER_WORDS):
                problems.append(("traceback", said[-300:]))
            elif code:
                problems.append(("wrong", f"a rank ended with exit {code}: {said[-300:]}"))
        if tree(self.out) != self.made.clean:
            problems.append(("wrong", "other bytes than one process alone"))
        if leftovers(self.out):
            problems.append(("litter", ", ".join(leftovers(self.out))))
        return problems


def kill_leader(campaign, tally, size, seed):
    """Kill the leader of so many ranks at a random moment; the others raise, and a relaunch resumes."""
    ranks, chosen = Ranks(campaign), random.Random(seed)
    for rank in range(size):
        ranks.start(rank, size)
    leader = ranks.wait_for_leader()
    time.sleep(chosen.uniform(0, 0.3))
    os.kill(leader, signal.SIGKILL)
    codes = ranks.wait()
    unexpected = [code for code in codes if code not in {0, 1, -signal.SIGKILL}]
    ranks.processes.clear()
    for rank in range(size):
        ranks.start(rank, size)
    problems = ranks.judge(ranks.wait())
    if unexpected:
        problems.append(("wrong", f"ranks ended with {unexpected} after the leader was killed"))
    return tally.add(f"{size} ranks, seed {seed}", problems)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(6))
def test_sixty_four_ranks_whose_leader_is_killed(campaign, tally, seed):
    assert not kill_leader(campaign, tally("64 ranks, leader killed"), 64, seed)
