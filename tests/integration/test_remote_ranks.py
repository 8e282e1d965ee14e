"""Ranks on two hosts that share only a real S3 server: one prepares, the other sees it, its failure and its death."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corpus import jsonl
from object_store import bucket, s3_endpoint  # noqa: F401 - fixtures
from tokenmill.datasets.store import ObjectStore

pytestmark = pytest.mark.s3
RANK = Path(__file__).parent / "rank_elsewhere.py"


class Launch:
    """Two ranks of one launch, each with a host and a cache of its own."""

    def __init__(self, root, output):
        self.root, self.output = root, output
        self.path = root / "in.jsonl"
        self.path.write_bytes(jsonl())

    def start(self, rank):
        environment = os.environ | {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "TOKENMILL_CACHE": str(self.root / f"cache-{rank}"),
            "PYTHONPATH": f"{Path(__file__).parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        command = [sys.executable, str(RANK), f"host-{rank}", str(self.path), self.output]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def led(self, rank):
        """Whether a rank has worked: only who leads records its progress."""
        return any((self.root / f"cache-{rank}").rglob("progress.json"))


def told(process):
    out, err = process.communicate(timeout=100)
    assert out, err
    return json.loads(out.splitlines()[-1])


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def launch(tmp_path, bucket):  # noqa: F811
    return Launch(tmp_path, f"{bucket}/out")


def test_a_rank_on_another_host_waits_for_the_leader(launch):
    store = ObjectStore(launch.output)
    leader = launch.start(0)
    wait_for(lambda: store.read(".leader.json") is not None)
    waiter = launch.start(1)
    first, second = told(leader), told(waiter)
    assert first == second
    assert (launch.led(0), launch.led(1)) == (True, False)
    assert store.read(".leader.json") is None


def test_a_failure_of_the_leader_is_named_on_another_host(launch):
    launch.path.write_bytes(launch.path.read_bytes() + b"{broken\n")
    leader = launch.start(0)
    wait_for(lambda: ObjectStore(launch.output).read(".leader.json") is not None)
    waiter = launch.start(1)
    first, second = told(leader), told(waiter)
    assert first["error"] == "InputError"
    assert second["error"] == "LeaderError"
    assert "rank 0" in second["message"]
    assert "broken JSON" in second["message"]
    assert not launch.led(1)


def test_a_dead_leader_is_noticed_on_another_host_and_a_relaunch_resumes(launch):
    store = ObjectStore(launch.output)
    leader = launch.start(0)
    wait_for(lambda: len(store.list_sizes("receipts")) >= 2)
    waiter = launch.start(1)
    time.sleep(3)  # so that the waiter has seen it alive
    leader.kill()
    leader.communicate()
    done = len(store.list_sizes("receipts"))
    assert store.read("manifest.json") is None, "the leader was too quick to be killed"
    assert "no sign of life" in told(waiter)["message"]
    first, second = [told(process) for process in (launch.start(0), launch.start(1))]
    assert first == second
    assert len(store.list_sizes("receipts")) > done
