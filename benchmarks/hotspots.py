"""Where the time goes, cell by cell: `perf` samples of our own encoder, and how far it is from the speed of memory.

`python benchmarks/hotspots.py [--corpora DIR] [--only en,zh] [--vocabularies cl100k] [--seconds 2]`

Samples are grouped by what the code is for. The last column compares with `encode.json` of the same run: a copy of arrays
far larger than every cache, as STREAM does it, moves so many times the bytes that the encoder reads (text) and
writes (ids) in the same CPU time. Needs `perf` and permission to use it; without it, it only measures the
copy. Writes `benchmarks/results/hotspots.json`.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from functools import partial

import numpy as np

import contest
import corpora
import peers

# What the name of a function holds, and what that is for; the first that fits counts.
PURPOSES = (
    ("new pages (kernel)", ("[k]",)),
    ("scan", ("::scan::",)),
    ("misses", ("::merge", "::pending", "::tables", "::pairs", "encode_other")),
    ("cuts", ("encode_cut", "::cuts", "::segments")),
    ("keys, probes, ids", ("::bpe::",)),
    ("strings to UTF-8", ("::utf8", "libpython")),
    ("documents and output", ("_core", "numpy", "libc")),
)
ARRAY = 512 << 20


def purpose(line):
    """`_core.so [.] tokenmill_core::scan::path::fill` -> "scan"."""
    return next((name for name, marks in PURPOSES if any(mark in line for mark in marks)), "other")


def copy_rate(turns=5):
    """Bytes read plus bytes written in a CPU-second, best of several."""
    source, target = np.ones(ARRAY // 8), np.zeros(ARRAY // 8)
    best = float("inf")
    for _ in range(turns):
        start = time.process_time()
        np.copyto(target, source)
        best = min(best, time.process_time() - start)
    return 2 * ARRAY / best


def work(encoder, texts, phase, seconds):
    """The sampled part: texts never seen, 500 at a time and all once, or a few over and over."""
    end = time.monotonic() + seconds
    for at in range(0, len(texts), 500):
        if phase == "unseen":
            encoder.flat(texts[at : at + 500])
    while phase == "seen" and time.monotonic() < end:
        encoder.flat(texts[:2000])


def sampled(action):
    """{purpose: share of the samples} of a call in a child of its own."""
    ready, waiting = os.pipe()
    child = os.fork()
    if child == 0:
        action(waiting)
        os._exit(0)
    os.read(ready, 1)
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        recorder = ["perf", "record", "-q", "-F", "5000", "-o", data, "-p", str(child)]
        with subprocess.Popen(recorder, stderr=subprocess.DEVNULL) as process:
            os.waitpid(child, 0)
            process.wait()
        report = ["perf", "report", "-i", data, "--no-children", "--stdio", "-g", "none"]
        told = subprocess.run(
            [*report, "-F", "overhead,dso,symbol"], capture_output=True, text=True, check=False
        ).stdout
    shares = Counter()
    for line in told.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and words[0].endswith("%"):
            shares[purpose(words[1])] += float(words[0][:-1])
    total = sum(shares.values()) or 1
    return {name: share / total for name, share in shares.most_common()}


def child(texts, vocabulary, phase, options, ready):
    """Warm up an encoder, print a line, wait until the profiler has attached, and encode."""
    contest.own(texts)
    path = corpora.vocabulary_files(options.scratch)[vocabulary]
    encoder = peers.Tokenmill(vocabulary, path, 1)
    warm = len(texts) // 8
    encoder.flat(texts[:warm])
    os.write(ready, b"!")
    time.sleep(0.7)
    work(encoder, texts[warm:] if phase == "unseen" else texts[:warm], phase, options.seconds)


def distances(rate, scratch):
    """{"cl100k en unseen": times that a copy is faster}: each byte of text is read, each id of four bytes written."""
    path = scratch / "encode.json"
    cells = json.loads(path.read_text())["best"] if path.exists() else {}
    speeds = {
        cell.replace(" flat", ""): rows["tokenmill"]["cpu"]
        for cell, rows in cells.items()
        if " flat " in cell
    }
    # About four bytes of text make an id of four bytes, so as much is written as read.
    return {cell: rate / (speed * 2e6) for cell, speed in speeds.items()}


def main():
    options = contest.options(
        __doc__, only=corpora.NAMES, vocabularies=tuple(corpora.VOCABULARIES), seconds=2.0
    )
    rate = copy_rate()
    print(f"Copying {ARRAY >> 20} MiB: {rate / 1e9:.1f} GB read and written in a CPU-second\n")
    found, distance = {}, distances(rate, options.scratch)
    if shutil.which("perf") is None:
        print("perf is not installed: no profiles")
    for name in options.only if shutil.which("perf") else ():
        texts = corpora.documents(name, options.corpora)
        for vocabulary in options.vocabularies:
            for phase in ("unseen", "seen"):
                action = partial(child, texts, vocabulary, phase, options)
                found[f"{vocabulary} {name} {phase}"] = sampled(action)
    names = [*(name for name, _ in PURPOSES), "other"]
    print("| cell | " + " | ".join(names) + " | a copy is faster by |\n" + "|---" * (len(names) + 2) + "|")
    for cell, shares in found.items():
        far = f"{distance[cell]:.0f}x" if cell in distance else ""
        told = " | ".join(f"{100 * shares.get(name, 0):.0f} %" for name in names)
        print(f"| {cell} | {told} | {far} |")
    report = {"bytes_per_second": rate, "distance": distance, "shares": found}
    (options.scratch / "hotspots.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
