"""Encoding speed beside the peers: MB per CPU-second and ratios, ids compared first.

`python benchmarks/encode.py [--corpora DIR] [--megabytes 8] [--turns 3] [--threads 1] [--only en,zh]`

Each encoder runs in a process of its own with the same inputs and the same number of threads; the encoders
take turns, and the best of the turns counts. A turn loads a new tokenizer, warms it on one half of the
documents, then encodes the other half: *unseen* the first time, *seen* the second. The two slow references
get one megabyte and one turn. Prints a Markdown table and writes JSON to `benchmarks/results/encode.json`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import corpora  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402

SLOW = ("tiktoken", "tokenizers")
SLOW_MEGABYTES = 1.0


def timed(action, texts, megabytes):
    """MB per CPU-second and per second of one call."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = action(texts)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return result, {"cpu": megabytes / cpu, "wall": megabytes / wall}


def measure(peer, options):
    """All cells of one encoder: {"vocabulary corpus output phase": speeds}, {"vocabulary corpus": digest}."""
    paths = corpora.vocabulary_files(options.scratch)
    cells, digests = {}, {}
    for name in options.only:
        warm, fresh = corpora.halves(corpora.documents(name, options.corpora), options.megabytes)
        size = sum(len(text.encode()) for text in fresh) / 1e6
        for vocabulary in options.vocabularies:
            for output in ("flat", "lists"):
                encoder = peers.PEERS[peer](vocabulary, paths[vocabulary], options.threads)
                encode = getattr(encoder, output)
                if encode is None:
                    continue
                encode(warm)
                for phase in ("unseen", "seen"):
                    result, speed = timed(encode, fresh, size)
                    cells[f"{vocabulary} {name} {output} {phase}"] = speed
                if output == "lists":
                    digests[f"{vocabulary} {name}"] = peers.digest(result)
    return {"cells": cells, "digests": digests}


def run(peer, megabytes, options):
    """One turn of one encoder in a process of its own."""
    command = [sys.executable, __file__, "--worker", peer, "--megabytes", str(megabytes)]
    command += ["--threads", str(options.threads), "--only", ",".join(options.only)]
    command += ["--vocabularies", ",".join(options.vocabularies)]
    command += ["--corpora", str(options.corpora), "--scratch", str(options.scratch)]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(options.threads)}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise SystemExit(f"{peer} failed:\n{outcome.stderr}")
    return json.loads(outcome.stdout.splitlines()[-1])


def collect(options):
    """Best speeds of every encoder, once their ids are known to be equal."""
    names = options.peers
    sizes = {name: SLOW_MEGABYTES if name in SLOW else options.megabytes for name in names}
    expected = {size: run("tokenmill", size, options)["digests"] for size in set(sizes.values())}
    best = {name: {} for name in names}
    for turn in range(options.turns):
        for name in names:
            if turn and name in SLOW:
                continue
            result = run(name, sizes[name], options)
            for cell, value in result["digests"].items():
                if value != expected[sizes[name]][cell]:
                    raise SystemExit(f"{name} gives other ids on {cell}: nothing was timed")
            for cell, speed in result["cells"].items():
                known = best[name].setdefault(cell, speed)
                best[name][cell] = {kind: max(known[kind], speed[kind]) for kind in speed}
    return best


def table(best):
    """Markdown: one row per cell, MB per CPU-second, and ours over each other's best."""
    others = [name for name in best if name != "tokenmill"]
    lines = ["| cell | tokenmill | " + " | ".join(others) + " |", "|---" * (len(others) + 2) + "|"]
    for cell, ours in best["tokenmill"].items():
        row = [cell, f"{ours['cpu']:.0f}"]
        for name in others:
            # A peer without this output is compared by the one that it has.
            theirs = best[name].get(cell) or best[name].get(cell.replace(" flat ", " lists "))
            row.append(f"{theirs['cpu']:.0f} ({ours['cpu'] / theirs['cpu']:.1f}x)" if theirs else "")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    split = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", type=split, default=list(corpora.NAMES))
    parser.add_argument("--vocabularies", type=split, default=list(corpora.VOCABULARIES))
    parser.add_argument("--peers", type=split, default=list(peers.PEERS))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    options.scratch.mkdir(parents=True, exist_ok=True)
    if options.worker:
        print(json.dumps(measure(options.worker, options)))
        return
    best = collect(options)
    report = {
        "machine": machine.described(),
        "versions": peers.versions(),
        "threads": options.threads,
        "best": best,
    }
    (options.scratch / "encode.json").write_text(json.dumps(report, indent=1))
    print(f"MB per CPU-second, {options.threads} thread(s), {report['machine']}; {report['versions']}\n")
    print(table(best))


if __name__ == "__main__":
    main()
