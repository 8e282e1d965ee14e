"""The Ray executor on a real cluster of two nodes: same bytes, whatever is killed meanwhile."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

import scale_options
import tokenmill
from tokenmill.errors import ConfigError, RejectLimitError
from tokenmill.pipeline.prepare import set_up
from tokenmill.settings.resolve import from_options

pytestmark = pytest.mark.ray


def options(corpus, output, **more):
    return scale_options.options(corpus, output, parity_check=False, executor="ray") | more


def test_two_nodes_make_the_same_bytes(cluster, corpus, reference, tmp_path):
    dataset = tokenmill.prepare(**options(corpus, tmp_path / "out", ray_address=cluster.address))
    assert dataset.content_hash == reference.content_hash


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
    with pytest.raises(RejectLimitError, match=r"1 were set aside: .*part-1") as caught:
        tokenmill.prepare(**job, keep=_dies_on_one_unit)
    assert caught.value.exit_code == 3
    receipts = len(list((tmp_path / "out" / "receipts").glob("*.json")))
    units = len(json.loads((tmp_path / "out" / "plan.json").read_text())["units"])
    assert receipts == units - 1


def test_no_cluster_at_the_address(corpus, tmp_path):
    pytest.importorskip("ray", reason="the ray extra is not installed")
    code = (
        "import sys; from tokenmill.pipeline.executors import connect; from tokenmill.errors import ConfigError\n"
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
    run = set_up(resolved)[""]
    run.plan()
    (inputs / "a.jsonl").unlink()
    with pytest.raises(RejectLimitError, match="set aside") as caught:
        run.lead()
    assert str(inputs / "a.jsonl") in str(caught.value)
    assert f"on host {socket.gethostname()}" in str(caught.value)
