"""How `prepare` would do on more cores than this machine has: what threads share is measured, the rest is a queueing model.

    python benchmarks/many_cores.py [--corpora DIR] [--name en] [--size 4e8] [--turns 3]

Threads share Python's lock, which a block needs for its bookkeeping, and the machine's caches and memory. The cost of a block
apart from its bytes is what smaller blocks cost more: all of it is taken as time under the lock, so the model is too gloomy
rather than too hopeful. How much threads slow each other down in native code is what two of them take more than one. The lock is
then one server that N threads visit in turn (exact mean value analysis of a closed network: exponential times, no
priorities). Not in the model: memory bandwidth beyond two threads, several sockets, the disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from corpora import CORPORA
from grown import grow
from prepare import gpt2
from tokenmill.pipeline.executors import choose_block_bytes

RESULTS = Path(__file__).parent / "results"
BLOCK = 1 << 20
SMALL = 64 << 10
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
JOB = """
import sys, time, tokenmill
from tokenmill.pipeline import executors
executors.choose_block_bytes = lambda _: int(sys.argv[4])
start = time.process_time()
tokenmill.prepare([sys.argv[1]], sys.argv[2], sys.argv[3], threads=int(sys.argv[5]), unit_bytes="32MiB", show_progress=False)
print(time.process_time() - start)
"""


def cpu_seconds(source, tokenizer, block, threads):
    """Of one job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-c",
            JOB,
            str(source),
            tokenizer,
            f"{folder}/out",
            str(block),
            str(threads),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return float(done.stdout.splitlines()[-1])


def throughputs(native, locked, most):
    """Blocks a second of 1 to `most` threads: each takes `native` seconds alone, then `locked` under the lock."""
    waiting, found = 0.0, []
    for threads in range(1, most + 1):
        at_lock = locked * (1 + waiting)
        found.append(threads / (native + at_lock))
        waiting = found[-1] * at_lock
    return found


def tell(native, locked, cores, times):
    """The speed with blocks of so many MiB, whose native time grows with them and whose bookkeeping does not."""
    found = throughputs(times * native, locked, cores)
    return f"{found[-1] * times * BLOCK / 1e6:,.0f}, {found[-1] / (cores * found[0]):.0%}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    parser.add_argument("--name", default="en")
    parser.add_argument("--size", type=float, default=4e8)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, tokenizer = Path(folder) / f"{given.name}.jsonl", str(gpt2(Path(folder) / "gpt2"))
        with source.open("wb") as file:
            file.writelines(grow(given.name, given.size, given.corpora))
        size = source.stat().st_size
        cases = {"one": (BLOCK, 1), "two": (BLOCK, 2), "small": (SMALL, 1)}
        best = dict.fromkeys(cases, 9e9)
        for _ in range(given.turns):
            for name, case in cases.items():
                best[name] = min(best[name], cpu_seconds(source, tokenizer, *case))
    blocks = size / BLOCK
    locked = max(0.0, (best["small"] - best["one"]) / (size / SMALL - blocks))
    native = best["two"] / blocks - locked
    print(
        f"{size / 1e6:.0f} MB of {given.name}: {best['one']:.2f} CPU s with one thread, {best['two']:.2f} with two"
    )
    print(
        f"a block of 1 MiB: {native * 1e3:.2f} ms of native code, at most {locked * 1e3:.3f} ms under Python's lock\n"
    )
    print(
        "| cores | blocks of 1 MiB: MB/s at most, of as many lone cores | blocks | MB/s at most, of as many lone cores |"
    )
    print("|---|---|---|---|")
    for cores in CORES:
        times = choose_block_bytes(cores) // BLOCK
        told = [tell(native, locked, cores, each) for each in (1, times)]
        print(f"| {cores} | {told[0]} | {times} MiB | {told[1]} |")
    report = {"size": size, "cpu": best, "locked": locked, "native": native}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "many_cores.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
