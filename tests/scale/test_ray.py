"""The Ray executor on a real cluster of two nodes: same bytes, whatever is killed meanwhile."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

import scale_options
import tokenmill
from tokenmill.config.resolve import from_options
from tokenmill.errors import ConfigError, RejectLimitError
from tokenmill.executors.ray import connect
from tokenmill.jobs.prepare import set_up

pytestmark = pytest.mark.ray


def options(corpus, output, **more):
    return scale_options.options(corpus, output, parity_check=False, executor="ray") | more


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
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import this file
    job = options(corpus, tmp_path / "out", ray_address=cluster.address, inputs=[str(poisoned / "*.jsonl")])
    with pytest.raises(RejectLimitError, match=r"1 were set aside after 3 attempts.*part-1") as caught:
        tokenmill.prepare(**job, keep=_dies_on_one_unit)
    assert caught.value.exit_code == 3
    receipts = len(list((tmp_path / "out" / "receipts").glob("*.json")))
    units = len(json.loads((tmp_path / "out" / "plan.json").read_text())["units"])
    assert receipts == units - 1


def test_no_cluster_at_the_address(corpus, tmp_path):
    pytest.importorskip("ray", reason="the ray extra is not installed")
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


def test_a_node_without_the_inputs_is_named(cluster, corpus, tmp_path):
    """The file is gone by the time a unit opens it, as on a node that does not share the disk."""
    inputs = tmp_path / "in"
    inputs.mkdir()
    (inputs / "a.jsonl").write_bytes((corpus / "part-0.jsonl").read_bytes())
    job = options(corpus, tmp_path / "out", ray_address=cluster.address, inputs=[str(inputs / "*.jsonl")])
    resolved = from_options(**job)
    preparation = set_up(resolved)
    (inputs / "a.jsonl").unlink()
    with pytest.raises(RejectLimitError, match="set aside") as caught:
        preparation.lead()
    assert str(inputs / "a.jsonl") in str(caught.value)
    assert f"on host {socket.gethostname()}" in str(caught.value)


def test_a_lost_node_and_a_new_driver_lose_nothing(corpus, tmp_path):
    """One of two nodes is killed in the middle, then the driver; the same command ends with the same bytes."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    job = options(corpus, tmp_path / "out", unit_bytes=1 << 13)
    first = subprocess.Popen(
        [sys.executable, str(script), json.dumps(job), "lose"], stdout=subprocess.PIPE, text=True
    )
    said, _ = first.communicate(timeout=120)
    assert "node lost" in said
    assert first.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "out" / "receipts").glob("*.json"))) > 0
    assert not (tmp_path / "out" / "manifest.json").exists()
    second = subprocess.run(
        [sys.executable, str(script), json.dumps(job), "stay"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert second.returncode == 0, second.stderr
    local = tokenmill.prepare(**options(corpus, tmp_path / "local", executor="local", unit_bytes=1 << 13))
    assert tokenmill.open(tmp_path / "out").content_hash == local.content_hash


DRIVER = """
import json, os, signal, sys, threading, time
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # stay on loopback
from pathlib import Path
from ray.cluster_utils import Cluster
import tokenmill

job = json.loads(sys.argv[1])
resources = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "object_store_memory": 100 << 20, "memory": 2 << 30}
cluster = Cluster(initialize_head=True, head_node_args=resources | {"include_dashboard": False})
second = cluster.add_node(**resources)
cluster.wait_for_nodes()

def lose():
    receipts = Path(job["output"]) / "receipts"
    while len(list(receipts.glob("*.json"))) < 5:
        time.sleep(0.05)
    cluster.remove_node(second, allow_graceful=False)
    print("node lost", flush=True)
    while len(list(receipts.glob("*.json"))) < 12:
        time.sleep(0.05)
    head = cluster.head_node
    head.kill_all_processes(check_alive=False, allow_graceful=False)
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "lose":
    threading.Thread(target=lose, daemon=True).start()
tokenmill.prepare(**job, ray_address=cluster.address)
import ray
ray.shutdown()
cluster.shutdown()
"""
