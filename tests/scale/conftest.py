"""A real Ray cluster of two nodes on loopback, and a corpus that is cut into many units."""

import json
import os
import random

import pytest

import tokenmill
from scale_options import NODE, options

# Before Ray is imported: it would swap loopback for the machine's own address; with this it stays on loopback.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
WORDS = [
    "the", "mill", "turns", "grain", "into", "flour", "and", "the", "river", "follows", "방앗간", "곡식",
    "강물", "磨坊", "谷物", "小河",
]  # fmt: skip


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """About 1 MB in three files, and a tokenizer for it."""
    root = tmp_path_factory.mktemp("scale")
    rng = random.Random(7)
    for number in range(3):
        lines = [
            json.dumps(
                {"id": n, "text": " ".join(rng.choices(WORDS, k=rng.randrange(5, 80)))}, ensure_ascii=False
            )
            for n in range(900)
        ]
        (root / f"part-{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenmill.train([str(root / "part-0.jsonl")], 500, special_tokens=["<|endoftext|>"]).save(root / "tok")
    return root


@pytest.fixture(scope="session")
def reference(corpus, tmp_path_factory):
    """What one local process makes of the corpus."""
    return tokenmill.prepare(**options(corpus, tmp_path_factory.mktemp("reference") / "out", threads=1))


@pytest.fixture(scope="session")
def cluster():
    """Two nodes with one CPU each, on this machine's loopback; stopped when the session ends."""
    pytest.importorskip("ray", reason="the ray extra is not installed")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()
