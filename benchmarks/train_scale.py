"""How the cost of training grows: 1x, 2x and 4x of a corpus, and what that says of 12 GB and 1 TB.

    python benchmarks/train_scale.py [--corpora ../shared/corpora] [--names en ko zh] [--vocab-size 32000]

1x is every fourth document, 2x every second, 4x all of them, so that new text brings new pieces as it does in
life. Times are CPU seconds. Distinct pieces are carried on by Heaps' law, fitted to the three points.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from tokenmill import _core
from tokenmill.settings.schema import SourceConfig, TrainingConfig
from tokenmill.training.counting import Counting, open_corpus
from tokenmill.training.merging import Checkpoint, merge
from train_parity import texts_of

ROOT = Path(__file__).resolve().parent.parent


def cpu():
    return sum(os.times()[:2])


def measure(blocks, options):
    started = cpu()
    counting = Counting(options, threads=os.cpu_count() or 1, memory_budget=4 << 30, spill_dir="/tmp")
    for block in blocks:
        counting.count(counting.admit(block))
    counted = counting.finish()
    between = cpu()
    distinct = sum(len(counted.counts.batch(part)[0]) for part in range(counted.counts.batches()))
    begun = cpu()
    merged = merge(counted, options, checkpoint=Checkpoint(None))
    return {
        "bytes": counted.bytes,
        "counting": between - started,
        "merging": cpu() - begun,
        "unique": counted.unique,
        "distinct_bytes": distinct,
        "merges": len(merged.merges),
    }


def line(label, row):
    rate = row["bytes"] / 1e6 / row["counting"]
    print(
        f"| {label} | {row['bytes'] / 1e6:,.0f} | {row['counting']:.2f} | {rate:.0f} | {row['unique']:,} | "
        f"{row['distinct_bytes'] / 1e6:,.1f} | {row['merging']:.2f} |"
    )


def estimate(label, size, rows):
    """Counting by its rate, distinct pieces by Heaps' law, merging and memory by the distinct bytes."""
    first, last = rows[0], rows[-1]
    growth = math.log(last["distinct_bytes"] / first["distinct_bytes"]) / math.log(
        last["bytes"] / first["bytes"]
    )
    distinct = last["distinct_bytes"] * (size / last["bytes"]) ** growth
    counting = size / last["bytes"] * last["counting"]
    merging = distinct / last["distinct_bytes"] * last["merging"]
    print(
        f"| {label} | {counting / 3600:.2f} CPU h | {merging / 60:.1f} min | {distinct / 1e9:.2f} GB | "
        f"{10 * distinct / 1e9:.1f} GB | {growth:.2f} |"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=ROOT.parent / "shared" / "corpora")
    parser.add_argument("--names", nargs="+", default=["en", "ko", "zh"])
    parser.add_argument("--vocab-size", type=int, default=32_000)
    args = parser.parse_args()
    texts = list(texts_of([args.corpora / f"{name}.jsonl.zst" for name in args.names]))
    options = TrainingConfig(vocab_size=args.vocab_size, special_tokens=())
    print(f"tokenmill {_core.__version__}, {', '.join(args.names)}, {args.vocab_size:,} tokens\n")
    print("| corpus | MB | counting CPU s | MB per CPU-s | distinct pieces | their MB | merging s |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for label, step in (("1x", 4), ("2x", 2), ("4x", 1)):
        with open_corpus(iter(texts[::step]), SourceConfig()) as corpus:
            blocks = list(corpus.read_blocks())
        rows.append(measure(blocks, options))
        line(label, rows[-1])
    print("\n| corpus | counting | merging | distinct pieces | memory of merging | growth exponent |")
    print("|---|---|---|---|---|---|")
    estimate("12 GB", 12e9, rows)
    estimate("1 TB", 1e12, rows)


if __name__ == "__main__":
    main()
