"""Near-linear on pathological input: each doubling from 64 KiB to 16 MiB may multiply the cost by at most 2.3.

`python benchmarks/linear.py [--vocabulary cl100k] [--largest 16]`

Ten inputs. The cost of a size is the CPU time of one encode: sizes take turns, and the best of several runs is kept.
Writes `benchmarks/results/linear.json` and exits with 1 if some ratio is over the limit.
"""

import argparse
import itertools
import json
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


def timed(tokenizer, sizes, turns=4):
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


def speeds(tokenizer, size, turns=3):
    """{name: MB per CPU-second} on one size."""
    best = {}
    for turn in range(turns):
        for name, text in inputs(size, turn).items():
            start = time.process_time()
            tokenizer.encode_batch([text], special="text", threads=1)
            best[name] = max(best.get(name, 0), size / 1e6 / (time.process_time() - start))
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
    path = corpora.vocabulary_files(options.scratch)[options.vocabulary]
    tokenizer = Tokenizer.load(path)
    sizes = [SMALLEST]
    while sizes[-1] * 2 <= options.largest << 20:
        sizes.append(sizes[-1] * 2)
    speed = speeds(tokenizer, sizes[-1])
    found = timed(tokenizer, sizes)
    print("| input | MB per CPU-second | worst ratio of a doubling |\n|---|---|---|")
    ratios = {
        name: max(after / before for before, after in itertools.pairwise(row)) for name, row in found.items()
    }
    for name, ratio in ratios.items():
        print(f"| {name} | {speed[name]:.0f} | {ratio:.2f} |")
    report = {"ratios": ratios, "speed": speed, "costs": found}
    (options.scratch / "linear.json").write_text(json.dumps(report, indent=1))
    worst = max(ratios.values())
    if worst > LIMIT:
        raise SystemExit(f"a doubling cost {worst:.2f} times as much, expected at most {LIMIT}")


if __name__ == "__main__":
    main()
