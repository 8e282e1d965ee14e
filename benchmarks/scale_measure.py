"""Measures what the simulator of scale needs, in real runs on this machine, and writes it as JSON.

    python benchmarks/scale_measure.py --corpora DIR --output benchmarks/scale_measured.json

Unit times with one worker and with every core at work, what a run takes apart from its units, what a task costs the driver,
how long a killed worker is missed, the requests and latencies of an object store (moto's, on loopback). The small corpus
is for the model, the large one is what the model must predict: `scale_sim.py --check` compares.
"""

import argparse
import json
import math
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
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])
UNIT_BYTES = 16 << 20
STRAGGLER = 3.0  # times the median


def call(options):
    """In a process of its own: one job; its wall time, and the times of its units."""
    import tokenmill
    from tokenmill.pipeline import run as runs

    units, work = [], runs.run_unit

    def timed(job, task, control):
        begun = time.perf_counter()
        receipt = work(job, task, control)
        units.append((begun, time.perf_counter(), receipt.account.input_bytes))
        return receipt

    runs.run_unit = timed
    started = time.perf_counter()
    tokenmill.prepare(show_progress=False, verbose_level="ERROR", parity_check=False, report=False, **options)
    wall = time.perf_counter() - started
    print(
        json.dumps(
            {
                "wall": round(wall, 3),
                "working": round(max(end for _, end, _ in units) - min(start for start, _, _ in units), 3),
                "units": [round(end - start, 3) for start, end, _ in units],
                "bytes": sum(size for _, _, size in units),
            }
        )
    )


def run(inputs, tokenizer, **options):
    with tempfile.TemporaryDirectory() as output:
        job = {"inputs": [f"{inputs}/*.jsonl"], "tokenizer": tokenizer, "unit_bytes": UNIT_BYTES}
        command = [sys.executable, __file__, "--call", json.dumps(job | options | {"output": output})]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])


def measure_runs(inputs, tokenizer, addresses):
    """One run in every place: threads of this process, and nodes with one CPU each."""
    places = {f"{count} threads": {"threads": count} for count in (1, 2)}
    places |= {
        f"{count} nodes": {"executor": "ray", "ray_address": address} for count, address in addresses.items()
    }
    return {place: run(inputs, tokenizer, **options) for place, options in places.items()}


def spread(runs):
    """How units of one size differ, over all runs: jitter, stragglers and failures."""
    logs, stragglers, total = [], 0, 0
    for told in runs:
        middle = statistics.median(told["units"])
        whole = [seconds for seconds in told["units"] if seconds > middle / 2]  # the last of a file is short
        stragglers += sum(seconds > STRAGGLER * middle for seconds in whole)
        total += len(whole)
        logs += [math.log(seconds / middle) for seconds in whole if seconds <= STRAGGLER * middle]
    return {
        "units": total,
        "jitter": round(statistics.pstdev(logs), 4),
        "stragglers": stragglers,
        "failures": 0,  # a run with a failed unit would have said so and ended
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--megabytes", type=float, nargs=2, default=[250, 1000])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "scale_measured.json")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.call:
        call(json.loads(options.call))
        return
    import corpora
    from ray_cluster import cluster_of
    from ray_overhead import write_corpus
    from scale_probes import probe_cluster, probe_store

    scratch = ROOT / "benchmarks" / "results"
    scratch.mkdir(exist_ok=True)
    tokenizer = str(corpora.vocabulary_files(scratch)["cl100k"])
    sizes = dict(zip(("small", "large"), options.megabytes, strict=True))
    found = {"unit_bytes": UNIT_BYTES, "rounds": {name: [] for name in sizes}}
    folder = Path(tempfile.mkdtemp())
    try:
        for name, megabytes in sizes.items():
            (folder / name).mkdir()
            write_corpus(folder / name, options.corpora or corpora.CORPORA, megabytes)
        with cluster_of(1) as one, cluster_of(2) as two:
            for _ in range(options.rounds):
                for name in sizes:
                    found["rounds"][name].append(measure_runs(folder / name, tokenizer, {1: one, 2: two}))
            found["cluster"] = probe_cluster(two)
        found["store"] = probe_store(folder / "small" / "part-0.jsonl", tokenizer, UNIT_BYTES)
    finally:
        shutil.rmtree(folder)
    every = [told for name in sizes for runs in found["rounds"][name] for told in runs.values()]
    found["spread"] = spread(every)
    found["processors"] = os.cpu_count()
    options.output.write_text(json.dumps(found) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "rounds"}, indent=1))


if __name__ == "__main__":
    main()
