"""Bounded memory: unique random words must not make an encoder grow.

`python benchmarks/memory.py [--megabytes 1000] [--vocabulary cl100k]` encodes that much text in which hardly
a word comes twice, 8 MB at a time, and prints by how much the process grew. Exits with 1 beyond 256 MB.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import corpora  # noqa: E402
from tokenmill import Tokenizer  # noqa: E402

BLOCK = 8_000_000
LIMIT = 256


def random_words(draw):
    """A block of lower-case words of 4 to 15 letters."""
    letters = draw.integers(ord("a"), ord("z") + 1, BLOCK, dtype=np.uint8)
    ends = np.cumsum(draw.integers(5, 17, BLOCK // 5))
    letters[ends[ends < BLOCK]] = ord(" ")
    return letters.tobytes().decode()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--vocabulary", choices=corpora.VOCABULARIES, default="cl100k")
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.load(corpora.vocabulary_files(options.scratch)[options.vocabulary])
    process, draw = psutil.Process(), np.random.default_rng(1)
    before = process.memory_info().rss
    highest = before
    for _ in range(max(1, options.megabytes * 1_000_000 // BLOCK)):
        tokenizer.encode_batch([random_words(draw)], special="text", threads=1)
        highest = max(highest, process.memory_info().rss)
    grown = (highest - before) / 1e6
    print(
        f"{options.megabytes} MB of unique words: grew by {grown:.0f} MB at most, from {before / 1e6:.0f} MB"
    )
    if grown > LIMIT:
        raise SystemExit(f"grew by {grown:.0f} MB, expected at most {LIMIT}")


if __name__ == "__main__":
    main()
