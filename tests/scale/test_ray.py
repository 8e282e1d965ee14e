"""The Ray executor on a real cluster of two nodes: same bytes, whatever is killed meanwhile."""

import os
import random
import signal
import threading
import time

import psutil
import pytest

import tokenmill
from tokenmill.errors import ConfigError, RejectLimitError
from tokenmill.executors.ray import connect

pytestmark = pytest.mark.ray


def options(corpus, output, **more):
    return {
        "inputs": [str(corpus / "part-*.jsonl")],
        "tokenizer": str(corpus / "tok"),
        "output": str(output),
        "unit_bytes": 1 << 16,
        "show_progress": False,
        "verbose_level": "WARNING",
        "report": False,
        "parity_check": False,
        "executor": "ray",
    } | more


def workers():
    """Ray's worker processes that are at a task of ours, by their titles."""
    found = []
    for process in psutil.Process().children(recursive=True) + list(psutil.process_iter(["cmdline"])):
        try:
            if any("ray::_run_task" in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_two_nodes_make_the_same_bytes(cluster, corpus, reference, tmp_path):
    dataset = tokenmill.prepare(**options(corpus, tmp_path / "out", ray_address=cluster.address))
    assert dataset.content_hash == reference.content_hash


def test_killed_workers_lose_nothing(cluster, corpus, reference, tmp_path):
    connect(cluster.address)
    over, kills = threading.Event(), []

    def killer():
        rng = random.Random(3)
        while not over.is_set() and len(kills) < 6:
            time.sleep(rng.uniform(0.2, 0.6))
            for process in workers()[:1]:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                    kills.append(process.pid)
                except ProcessLookupError:
                    pass

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        dataset = tokenmill.prepare(
            **options(corpus, tmp_path / "out", ray_address=cluster.address, unit_bytes=1 << 13)
        )
    except RejectLimitError:
        # Bad luck may strike one unit three times; the same command then does what is left.
        over.set()
        thread.join()
        dataset = tokenmill.prepare(
            **options(corpus, tmp_path / "out", ray_address=cluster.address, unit_bytes=1 << 13)
        )
    over.set()
    thread.join()
    local = tokenmill.prepare(**options(corpus, tmp_path / "local", executor="local", unit_bytes=1 << 13))
    assert dataset.content_hash == local.content_hash
    assert kills, "no worker was killed: the test proves nothing"


def _dies_on_one_unit(text):
    if "POISON" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def test_a_poisoned_unit_is_set_aside_and_all_others_finish(cluster, corpus, tmp_path):
    poisoned = tmp_path / "in"
    poisoned.mkdir()
    for number in range(3):
        (poisoned / f"part-{number}.jsonl").write_bytes((corpus / f"part-{number}.jsonl").read_bytes())
    with (poisoned / "part-1.jsonl").open("a") as file:
        file.write('{"text": "POISON"}\n')
    job = options(corpus, tmp_path / "out", ray_address=cluster.address, inputs=[str(poisoned / "*.jsonl")])
    with pytest.raises(RejectLimitError, match=r"1 were set aside after 3 attempts.*part-1") as caught:
        tokenmill.prepare(**job, keep=_dies_on_one_unit)
    assert caught.value.exit_code == 3
    receipts = len(list((tmp_path / "out" / "receipts").glob("*.json")))
    units = len(__import__("json").loads((tmp_path / "out" / "plan.json").read_text())["units"])
    assert receipts == units - 1


def test_no_cluster_at_the_address(corpus, tmp_path):
    pytest.importorskip("ray", reason="the ray extra is not installed")
    import subprocess
    import sys

    code = (
        "import sys; from tokenmill.executors.ray import connect; from tokenmill.errors import ConfigError\n"
        "try: connect('127.0.0.1:1')\n"
        "except ConfigError as error: print(error); sys.exit(error.exit_code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == ConfigError.exit_code
    assert "ray start --head" in done.stdout
