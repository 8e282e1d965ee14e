"""Where the time goes, cell by cell: `perf` samples of our own encoder, grouped by what the code is for.

`python benchmarks/hotspots.py [--corpora DIR] [--only en,zh] [--vocabularies cl100k] [--seconds 4]`

Needs `perf` and permission to use it; without, it says so and measures nothing. Prints one row for each cell and writes
`benchmarks/results/hotspots.json`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import corpora  # noqa: E402
import peers  # noqa: E402

# What a function's path starts with or holds, and what that is for; the first that fits counts.
PURPOSES = (
    ("scan", ("::scan::",)),
    ("merges of misses", ("::merge", "::pending", "::windows", "::backtrack", "::trie", "::pairs")),
    ("cuts of CJK", ("::cuts", "::segments")),
    ("keys, probes, ids", ("::bpe::",)),
    ("documents and output", ("::codec::", "_core::", "numpy", "memmove", "memset", "memcpy")),
    ("kernel: new pages", ("[k]",)),
    ("Python", ("python", "Py")),
)


def purpose(symbol):
    """`[.] tokenmill_core::scan::path::fill` -> "scan"."""
    for name, marks in PURPOSES:
        if any(mark in symbol for mark in marks):
            return name
    return "other"


def work(options):
    """The sampled process: all of the corpus once (unseen), or a part of it over and over (seen)."""
    vocabulary, name, phase = options.cell
    path = corpora.vocabulary_files(options.scratch)[vocabulary]
    texts = corpora.documents(name, options.corpora)
    warm, rest = texts[: len(texts) // 8], texts[len(texts) // 8 :]
    encoder = peers.Tokenmill(vocabulary, path, 1)
    encoder.flat(warm)
    print("ready", flush=True)
    # The profiler needs a moment to attach; a process that sleeps gives no samples.
    time.sleep(0.7)
    end = time.monotonic() + options.seconds
    for at in range(0, len(rest), 500):
        if phase == "unseen":
            encoder.flat(rest[at : at + 500])
    while phase == "seen" and time.monotonic() < end:
        encoder.flat(warm)


def sampled(cell, options):
    """{purpose: share of the samples} of one cell."""
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        program = [sys.executable, __file__, "--cell", *cell, "--corpora", str(options.corpora)]
        program += ["--seconds", str(options.seconds), "--scratch", str(options.scratch)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            recorder = ["perf", "record", "-q", "-o", data, "-p", str(process.pid)]
            subprocess.run(recorder, capture_output=True, check=False)
        told = subprocess.run(
            ["perf", "report", "-i", data, "--no-children", "--stdio", "-g", "none", "-F", "overhead,symbol"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    shares = Counter()
    for line in told.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and words[0].endswith("%"):
            shares[purpose(words[1])] += float(words[0][:-1])
    total = sum(shares.values()) or 1
    return {name: share / total for name, share in shares.most_common()}


def main():
    split = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", type=split, default=list(corpora.NAMES))
    parser.add_argument("--vocabularies", type=split, default=list(corpora.VOCABULARIES))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    if options.cell:
        work(options)
        return
    if shutil.which("perf") is None:
        print("perf is not installed: no profiles")
        return
    corpora.vocabulary_files(options.scratch)
    cells = [
        (v, c, phase) for v in options.vocabularies for c in options.only for phase in ("unseen", "seen")
    ]
    found = {" ".join(cell): sampled(cell, options) for cell in cells}
    names = [name for name, _ in PURPOSES] + ["other"]
    print("| cell | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for cell, shares in found.items():
        print(f"| {cell} | " + " | ".join(f"{100 * shares.get(name, 0):.0f} %" for name in names) + " |")
    (options.scratch / "hotspots.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
