"""What a cluster costs: the same job on this machine's threads and on two Ray nodes with one CPU each.

`python benchmarks/ray_overhead.py [--corpora DIR] [--megabytes 1000]`

The cluster's start is not counted; the first job on it is (its workers load the vocabulary). Content hashes are
compared before the figures are printed. Bar: at most 1.3x the wall time of two local threads.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # stay on loopback
ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]
os.environ["PYTHONPATH"] = f"{ROOT / 'python'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

from ray.cluster_utils import Cluster  # noqa: E402

import corpora  # noqa: E402
import tokenmill  # noqa: E402


def write_corpus(folder, source, megabytes):
    """JSON Lines of about that size, in four files; repeated texts, since only the wall time matters here."""
    texts = corpora.documents("en", source)
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    size = sum(len(line.encode()) for line in lines)
    for number in range(4):
        with (folder / f"part-{number}.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(max(1, round(megabytes * 1e6 / size / 4))):
                file.writelines(lines)
    return sum(path.stat().st_size for path in folder.glob("*.jsonl"))


def timed(**options):
    started = time.perf_counter()
    dataset = tokenmill.prepare(
        show_progress=False, verbose_level="ERROR", parity_check=False, report=False, **options
    )
    return time.perf_counter() - started, dataset.content_hash


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--megabytes", type=float, default=1000)
    options = parser.parse_args()
    scratch = ROOT / "benchmarks" / "results"
    scratch.mkdir(exist_ok=True)
    tokenizer = str(corpora.vocabulary_files(scratch)["cl100k"])
    nodes = {
        "node_ip_address": "127.0.0.1",
        "num_cpus": 1,
        "object_store_memory": 100 << 20,
        "memory": 3 << 30,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        size = write_corpus(folder / "in", options.corpora, options.megabytes)
        job = {"inputs": [f"{folder}/in/*.jsonl"], "tokenizer": tokenizer, "unit_bytes": 16 << 20}
        local = {
            threads: timed(output=f"{folder}/local-{threads}", threads=threads, **job) for threads in (1, 2)
        }
        cluster = Cluster(initialize_head=True, head_node_args=nodes | {"include_dashboard": False})
        cluster.add_node(**nodes)
        cluster.wait_for_nodes()
        ray_seconds, ray_hash = timed(
            output=f"{folder}/ray", executor="ray", ray_address=cluster.address, **job
        )
        import ray

        ray.shutdown()
        cluster.shutdown()
    if len({ray_hash, *(digest for _, digest in local.values())}) != 1:
        sys.exit("the content hashes differ: nothing to compare")
    print(
        f"{size / 1e6:.0f} MB of JSON Lines, units of 16 MiB\n\n| where | seconds | against two threads |\n|---|---|---|"
    )
    two = local[2][0]
    for where, seconds in (
        ("one local thread", local[1][0]),
        ("two local threads", two),
        ("two Ray nodes, one CPU each", ray_seconds),
    ):
        print(f"| {where} | {seconds:.2f} | {seconds / two:.2f}x |")
    figures = {"one": local[1][0], "two": two, "ray": ray_seconds, "bytes": size}
    (scratch / "ray_overhead.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
