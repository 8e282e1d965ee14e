"""Workers, a node and the driver are killed while a job runs on a real cluster: the bytes stay the same."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import scale_options
import tokenmill
from tokenmill.pipeline.verify import verify_dataset

pytestmark = pytest.mark.ray
DRIVER = Path(__file__).parent / "kill_driver.py"


@pytest.fixture
def job(corpus, tmp_path):
    """A job of about a hundred units."""
    return scale_options.options(
        corpus, tmp_path / "out", unit_bytes=1 << 13, parity_check=False, executor="ray"
    )


def drive(job, **orders):
    command = [sys.executable, str(DRIVER), json.dumps({"job": job, **orders})]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def told(done):
    """What the driver says it did; Ray speaks on the same stream."""
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def same_as_local(job, tmp_path):
    """The dataset equals one local process's, and nothing but its own shards is counted."""
    made = tokenmill.open(job["output"])
    local = tokenmill.prepare(**job | {"executor": "local", "output": str(tmp_path / "local")})
    assert made.content_hash == local.content_hash
    assert made.manifest.account.documents_written == local.manifest.account.documents_written
    # What a killed worker left half-written has a name that begins with a dot, and counts for nothing.
    receipts = [path for path in (tmp_path / "out" / "receipts").glob("*.json") if path.name[0] != "."]
    assert len(receipts) == len(made.manifest.shards) == len(local.manifest.shards)
    # What only a function of the caller can say (which documents it kept) is skipped.
    assert {check.state for check in verify_dataset(job["output"], sample=2)} <= {"ok", "skipped"}


def test_twelve_killed_workers_and_a_lost_node_lose_nothing(job, tmp_path):
    done = drive(job, kills=12, every=6, lose_node_after=6)
    assert done.returncode == 0, done.stderr
    struck = told(done)
    assert (struck["killed"], struck["lost"]) == (12, True)
    same_as_local(job, tmp_path)
    assert struck["content_hash"] == tokenmill.open(job["output"]).content_hash


def test_a_lost_node_and_a_new_driver_lose_nothing(job, tmp_path):
    """A node is killed, then the driver with the rest; the same command on a new cluster does what is left."""
    first = drive(job, lose_node_after=5, die_after=12)
    assert told(first)["lost"]
    assert first.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "out" / "receipts").glob("*.json"))) >= 12
    assert not (tmp_path / "out" / "manifest.json").exists()
    second = drive(job)
    assert second.returncode == 0, second.stderr
    same_as_local(job, tmp_path)
