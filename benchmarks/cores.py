"""All cores: many documents of 100 bytes, and one document of 1 GB, beside gigatoken and fastokens.

`python benchmarks/cores.py [--corpora DIR] [--megabytes 100] [--large 1000] [--turns 2] [--only en,zh]`

Every encoder runs in a process of its own with as many threads as there are cores; wall time counts, and the peak
memory is what the encoder and its output take beside the inputs. The large document is the corpus over and over. Writes
`benchmarks/results/cores.json`.
"""

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import contest  # noqa: E402
import corpora  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402

NAMES = ("tokenmill", "gigatoken", "fastokens")
SMALL = 100


def small_documents(text):
    """Pieces of about `SMALL` bytes."""
    step = max(1, round(SMALL * len(text) / len(text.encode())))
    return [text[at : at + step] for at in range(0, len(text), step)]


def cells(options):
    """One case in this process: which documents, and how much they are."""
    text = "\n".join(corpora.documents(options.only[0], options.corpora))
    size = len(text.encode()) / 1e6
    wanted = options.megabytes if options.case == "small" else options.large
    text = (
        (text + "\n") * max(1, round(wanted / size))
        if wanted > size
        else text[: int(len(text) * wanted / size)]
    )
    documents = small_documents(text) if options.case == "small" else [text]
    path = corpora.vocabulary_files(options.scratch)["cl100k"]
    contest.baseline()
    encoder = peers.PEERS[options.worker]("cl100k", path, os.cpu_count())
    encoder.flat(documents[: len(documents) // 50 + 1] if options.case == "small" else [text[:1_000_000]])
    megabytes = sum(len(document.encode()) for document in documents) / 1e6
    name = (
        f"{options.only[0]} {options.case} documents"
        if options.case == "small"
        else f"{options.only[0]} one document"
    )
    return {name: (lambda: encoder.flat(documents), megabytes)}


def main():
    split = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--large", type=float, default=1000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", type=split, default=["en", "zh"])
    parser.add_argument("--case", choices=("small", "large"), help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    if options.worker:
        contest.report(cells(options))
        return
    best = {}
    for name in options.only:
        for case in ("small", "large"):
            arguments = ["--corpora", str(options.corpora), "--scratch", str(options.scratch), "--case", case]
            arguments += [
                "--only",
                name,
                "--megabytes",
                str(options.megabytes),
                "--large",
                str(options.large),
            ]
            best |= contest.contest(__file__, NAMES, arguments, options.turns, os.cpu_count())
    report = {"machine": machine.described(), "versions": peers.versions(), "best": best}
    (options.scratch / "cores.json").write_text(json.dumps(report, indent=1))
    print(f"MB per second of wall time, {report['machine']}; {report['versions']}\n")
    print(contest.table(best, "wall"))


if __name__ == "__main__":
    main()
