"""Training loops from courses against our classes of the same names: compare merges, then print CPU seconds.

    python benchmarks/coming_from.py CORPUS.jsonl.zst [--kilobytes 500] [--merges 256]

minbpe and the naive trainer of CS336 are on no package index: their loops are made again here from what is published.
Tools that prepare (`datasets.map`, Megatron, nanoGPT, datatrove) are in `prepare.py`.
"""

import argparse
import io
import json
import resource
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import regex

from tokenmill.compat import cs336, minbpe

GPT2 = regex.compile(minbpe.GPT2_SPLIT_PATTERN)


def text_of(path, size):
    """The first documents of a JSON Lines file as one text."""
    raw = pa.input_stream(path, compression="detect")
    text = ""
    for line in io.TextIOWrapper(raw, encoding="utf-8"):
        text += json.loads(line)["text"] + "\n"
        if len(text.encode()) >= size:
            break
    return text


def joined(ids, pair, new):
    """`ids` with every `pair` in it as `new`, from the left."""
    made, at = [], 0
    while at < len(ids):
        if at + 1 < len(ids) and ids[at] == pair[0] and ids[at + 1] == pair[1]:
            made.append(new)
            at += 2
        else:
            made.append(ids[at])
            at += 1
    return made


def minbpe_loop(text, merges):
    """Every pair of every chunk counted anew, every chunk rebuilt, at each merge."""
    chunks = [list(chunk.encode()) for chunk in regex.findall(minbpe.GPT4_SPLIT_PATTERN, text)]
    made = []
    for new in range(256, 256 + merges):
        stats = {}
        for ids in chunks:
            for pair in pairwise(ids):
                stats[pair] = stats.get(pair, 0) + 1
        best = max(stats, key=stats.get)
        chunks = [joined(ids, best, new) for ids in chunks]
        made.append(best)
    return made


def minbpe_door(text, merges):
    """The same call on our core."""
    tokenizer = minbpe.RegexTokenizer()
    tokenizer.train(text, 256 + merges)
    return list(tokenizer.merges)


def cs336_loop(text, merges):
    """Distinct words with their counts; every pair of them counted anew at each merge."""
    counts = Counter(match.group() for match in GPT2.finditer(text))
    words = {tuple(bytes([byte]) for byte in word.encode()): count for word, count in counts.items()}
    made = []
    for _ in range(merges):
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        new = best[0] + best[1]
        words = {tuple(joined(word, best, new)): count for word, count in words.items()}
        made.append(best)
    return made


def cs336_door(text, merges):
    """The same call on our core, from a file as the assignment has it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.txt"
        path.write_text(text, encoding="utf-8")
        return cs336.train_bpe(path, 256 + merges, [])[1]


def timed(work, *given):
    """What `work` gives, its seconds, and its seconds of CPU."""
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    made = work(*given)
    end = resource.getrusage(resource.RUSAGE_SELF)
    cpu = end.ru_utime + end.ru_stime - used.ru_utime - used.ru_stime
    return made, time.perf_counter() - start, cpu


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--kilobytes", type=float, default=500)
    parser.add_argument("--merges", type=int, default=256)
    given = parser.parse_args()
    for corpus in given.corpora:
        text = text_of(corpus, given.kilobytes * 1000)
        for name, loop, door in (
            ("minbpe", minbpe_loop, minbpe_door),
            ("CS336", cs336_loop, cs336_door),
        ):
            door(text[:1000], 1)  # import before timing
            ours, wall, cpu = timed(door, text, given.merges)
            theirs, their_wall, their_cpu = timed(loop, text, given.merges)
            if ours != theirs:
                raise SystemExit(f"{name}: the merges differ")
            size = len(text.encode()) / 1e6
            print(
                f"{Path(corpus).name} {size:.2f} MB, {given.merges} merges, {name}: "
                f"wall {their_wall:.2f} -> {wall:.3f} s ({their_wall / wall:.0f}x), "
                f"CPU {their_cpu:.2f} -> {cpu:.3f} s ({their_cpu / cpu:.0f}x)"
            )


if __name__ == "__main__":
    main()
