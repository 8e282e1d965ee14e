"""Near-linear on pathological input: each doubling from 64 KiB to 16 MiB may multiply time by at most 2.3.

`python benchmarks/linear.py [--vocabulary cl100k] [--largest 16]` encodes ten inputs of growing size and
prints the speed of the largest and the worst ratio between neighbours. Sizes take turns, CPU time counts,
and the best of several runs is kept: on a busy machine a single run says little. Exits with 1 if some ratio
is over the limit.
"""

import argparse
import itertools
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import corpora  # noqa: E402
from tokenmill import Tokenizer  # noqa: E402

LIMIT = 2.3
SMALLEST = 64 << 10
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def some(characters, draw, count):
    return "".join(draw.choices(characters, k=count))


def unique_words(draw, size):
    words, length = [], 0
    while length < size:
        words.append(some(LETTERS, draw, draw.randint(3, 12)))
        length += len(words[-1]) + 1
    return " ".join(words)


def inputs(size, turn):
    """Ten texts of about `size` bytes; other ones each turn, so that no cache has seen them."""
    draw = random.Random(size * 8 + turn)
    han = [chr(code) for code in range(0x4E00, 0x9FA6)]
    emoji = [chr(code) for code in range(0x1F300, 0x1F600)]
    return {
        "one letter": "a" * size,
        "spaces": " " * size,
        "newlines": "\n" * size,
        "punctuation": some("!?.,;:#$%&*()-=+", draw, size),
        "random letters": some(LETTERS, draw, size),
        "Han": some(han, draw, size // 3),
        "emoji": some(emoji, draw, size // 4),
        "digits": some("0123456789", draw, size),
        "apostrophes": "'" * size,
        "unique words": unique_words(draw, size),
    }


def measure(tokenizer, sizes, turns=4):
    """{name: [best CPU seconds by size]}."""
    best = {}
    for text in inputs(SMALLEST * 8, turns).values():
        tokenizer.encode_batch([text], special="text", threads=1)
    for turn in range(turns):
        for at, size in enumerate(sizes):
            for name, text in inputs(size, turn).items():
                times = best.setdefault(name, [float("inf")] * len(sizes))
                start = time.process_time()
                tokenizer.encode_batch([text], special="text", threads=1)
                times[at] = min(times[at], time.process_time() - start)
    return best


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", choices=corpora.VOCABULARIES, default="cl100k")
    parser.add_argument("--largest", type=int, default=16, help="size of the largest input in MiB")
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.load(corpora.vocabulary_files(options.scratch)[options.vocabulary])
    sizes = [SMALLEST]
    while sizes[-1] * 2 <= options.largest << 20:
        sizes.append(sizes[-1] * 2)
    print("| input | MB per CPU-second | worst ratio of a doubling |\n|---|---|---|")
    worst = 0.0
    for name, times in measure(tokenizer, sizes).items():
        ratio = max(after / before for before, after in itertools.pairwise(times))
        worst = max(worst, ratio)
        print(f"| {name} | {sizes[-1] / 1e6 / times[-1]:.0f} | {ratio:.2f} |")
    if worst > LIMIT:
        raise SystemExit(f"a doubling took {worst:.2f} times as long, expected at most {LIMIT}")


if __name__ == "__main__":
    main()
