"""What a cluster costs: the same job on this machine's threads and on two Ray nodes with one CPU each.

`python benchmarks/ray_overhead.py [--corpora DIR] [--megabytes 250 1000] [--rounds 3]`

The cluster is up and at rest before the clock starts. Each figure is of a new process that has imported `tokenmill`
and calls `prepare`: finding inputs, loading the vocabulary and, on Ray, importing our modules in the workers and sending
them the job all count. `workers running` has Ray imported and connected and its worker processes started before the clock,
as the rest of the cluster is; without it that counts too. `again` is the same call once more in that process. Places
take turns in every round, ratios are taken within a round, and the middle one is printed. Content hashes are
compared before anything is printed. Bar: at most 1.3x the wall time of two local threads.
"""

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]
os.environ["PYTHONPATH"] = f"{ROOT / 'python'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
PLACES = {
    "one local thread": {"threads": 1},
    "two local threads": {"threads": 2},
    "two Ray nodes, workers running": {"executor": "ray", "connected": True},
    "two Ray nodes": {"executor": "ray"},
}


def write_corpus(folder, source, megabytes):
    """JSON Lines of about that size, in four files; repeated texts, since only the wall time matters here."""
    import corpora

    texts = corpora.documents("en", source)
    lines = [json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts]
    size = sum(len(line.encode()) for line in lines)
    for number in range(4):
        with (folder / f"part-{number}.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(max(1, round(megabytes * 1e6 / size / 4))):
                file.writelines(lines)
    return sum(path.stat().st_size for path in folder.glob("*.jsonl"))


def call(options):
    """In a process of its own: the job twice, each time from nothing."""
    import tokenmill

    if options.pop("connected", False):
        start_workers(options["ray_address"])
    told = {}
    for name in ("first", "again"):
        shutil.rmtree(options["output"], ignore_errors=True)
        started = time.perf_counter()
        dataset = tokenmill.prepare(
            show_progress=False, verbose_level="ERROR", parity_check=False, report=False, **options
        )
        told[name] = time.perf_counter() - started
    print(json.dumps(told | {"hash": dataset.content_hash}))


def start_workers(address):
    """Connect, and have a worker process of Ray's on every node; nothing of ours is imported there."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    nodes = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in ray.nodes()]
    ray.get([ray.remote(num_cpus=1, scheduling_strategy=node)(lambda: None).remote() for node in nodes])


def run_in_process(options):
    command = [sys.executable, __file__, "--call", json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(folder, address, tokenizer, rounds):
    """For each place its rounds."""
    job = {"inputs": [f"{folder}/*.jsonl"], "tokenizer": tokenizer, "unit_bytes": 16 << 20}
    found = {place: [] for place in PLACES}
    with tempfile.TemporaryDirectory() as output:
        for _ in range(rounds):
            for place, options in PLACES.items():
                more = {"ray_address": address} if "executor" in options else {}
                found[place].append(run_in_process(job | options | more | {"output": f"{output}/out"}))
    if len({told["hash"] for every in found.values() for told in every}) != 1:
        sys.exit("the content hashes differ: nothing to compare")
    return found


def summary(found):
    """Middle seconds and middle ratio within a round, by place, of the first call and of the second."""
    base = found["two local threads"]
    return {
        place: {
            name: {
                "seconds": statistics.median(told[name] for told in every),
                "ratio": statistics.median(a[name] / b[name] for a, b in zip(every, base, strict=True)),
            }
            for name in ("first", "again")
        }
        for place, every in found.items()
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[250, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        return call(json.loads(options.call))
    import corpora
    from ray_cluster import cluster_of

    scratch = ROOT / "benchmarks" / "results"
    scratch.mkdir(exist_ok=True)
    tokenizer = str(corpora.vocabulary_files(scratch)["cl100k"])
    figures = {}
    with cluster_of(2) as address:
        for megabytes in options.megabytes:
            with tempfile.TemporaryDirectory() as folder:
                size = write_corpus(Path(folder), options.corpora or corpora.CORPORA, megabytes)
                found = compare(folder, address, tokenizer, options.rounds)
            figures[size] = summary(found) | {"rounds": found}
    print("units of 16 MiB\n\n| MB | where | seconds | ratio | again | ratio |\n|---|---|---|---|---|---|")
    for size, places in figures.items():
        for place in PLACES:
            first, again = places[place]["first"], places[place]["again"]
            print(
                f"| {size / 1e6:.0f} | {place} | {first['seconds']:.2f} | {first['ratio']:.2f}x "
                f"| {again['seconds']:.2f} | {again['ratio']:.2f}x |"
            )
    (scratch / "ray_overhead.json").write_text(json.dumps(figures, indent=1))
    return None


if __name__ == "__main__":
    main()
