"""One long piece: 1 MB of a letter, of spaces, of newlines…, which no pattern cuts, beside every peer.

`python benchmarks/pieces.py [--turns 2] [--bytes 1000000] [--vocabularies cl100k]`

MB per CPU-second, one thread. A peer that fails on an input is told so. The bar: at least the best peer, and never
under 30. Writes `benchmarks/results/pieces.json`.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import contest  # noqa: E402
import corpora  # noqa: E402
import linear  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402

NAMES = ("tokenmill", "gigatoken", "fastokens", "tiktoken")
INPUTS = ("one letter", "spaces", "newlines", "punctuation", "random letters", "Han", "emoji")
FLOOR = 30


def cells(options):
    """{input: (action, megabytes)} of one encoder; tables that are built on first use are not in the figure."""
    path = corpora.vocabulary_files(options.scratch)[options.vocabularies[0]]
    contest.baseline()
    encoder = peers.PEERS[options.worker](options.vocabularies[0], path, 1)
    encode = encoder.flat or encoder.lists
    # Some bytes less, so that the piece itself is new; random ones are others altogether.
    for name, text in linear.inputs(options.bytes - 999, 1).items():
        if name in INPUTS:
            encode([text])
    made = {}
    for name, text in linear.inputs(options.bytes, 2).items():
        if name in INPUTS:
            action = partial(encode, [text])
            made[f"{options.vocabularies[0]} {name}"] = (action, len(text.encode()) / 1e6)
    return made


def main():
    split = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--vocabularies", type=split, default=list(corpora.VOCABULARIES))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    if options.worker:
        contest.report(cells(options))
        return
    best = {}
    for vocabulary in options.vocabularies:
        arguments = ["--scratch", str(options.scratch), "--bytes", str(options.bytes)]
        arguments += ["--vocabularies", vocabulary]
        best |= contest.contest(__file__, NAMES, arguments, options.turns, 1)
    report = {"machine": machine.described(), "versions": peers.versions(), "best": best}
    (options.scratch / "pieces.json").write_text(json.dumps(report, indent=1))
    print(f"MB per CPU-second, one thread, {report['machine']}; {report['versions']}\n")
    print(contest.table(best, "cpu"))
    slow = {cell: row["tokenmill"]["cpu"] for cell, row in best.items() if row["tokenmill"]["cpu"] < FLOOR}
    if slow:
        print(f"\nunder {FLOOR} MB per CPU-second: " + ", ".join(f"{c} ({s:.0f})" for c, s in slow.items()))


if __name__ == "__main__":
    main()
