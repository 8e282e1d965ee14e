"""Compare merges with those of others, one by one: Hugging Face's trainer on whole corpora, and the slow reference.

    python benchmarks/train_parity.py [--corpora ../shared/corpora] [--names ko zh en] [--vocab-size 32000]

First a sample of each corpus by the trainer that recounts every pair at each step, under both tie rules. Then all
of them together: with 1, 2 and 3 threads, with other blocks, spilled, interrupted and resumed, which must give the
same merges; and Hugging Face's. Exits with 1 at the first difference and shows both sides of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenmill._core import spell
from tokenmill.pipeline.train import run
from tokenmill.settings.resolve import from_options
from tokenmill.settings.schema import SourceConfig, TrainingConfig
from tokenmill.sources import cut_ranges, discover, infer_fields, read_blocks
from tokenmill.training import counting as inputs
from tokenmill.training.merging import train_merges

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import reference  # noqa: E402 - from the tests of this checkout


def texts_of(paths):
    config = SourceConfig(inputs=tuple(map(str, paths)))
    files = discover(config)
    config, _ = infer_fields(config, files)
    for file in files:
        for part in cut_ranges(file, 1 << 30):
            for block in read_blocks(file, part, config):
                yield from block.texts.to_pylist()


def theirs(paths, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts_of(paths), trainer)
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def ours(paths, vocab_size, progress=False, **how):  # noqa: FBT002
    resolved = from_options(job="train", vocab_size=vocab_size, special_tokens=(), **how)
    trained = run(resolved, [str(path) for path in paths], progress=progress)
    model = trained.tokenizer.recipe.model
    spelled = [spell(token) for token in model.tokens]
    return [(spelled[left], spelled[right]) for left, right in model.merges], trained.summary


def resumed(paths, vocab_size):
    """The merges of a run that was interrupted half-way and went on."""

    def interrupt(stage, done, _total):
        if stage == "merging" and done > vocab_size // 2:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        with suppress(KeyboardInterrupt):
            ours(paths, vocab_size, output=Path(folder), progress=interrupt)
            sys.exit("resumed: the run was over before it could be interrupted")
        return ours(paths, vocab_size, output=Path(folder), resume=True)[0]


def in_blocks(paths, vocab_size, size):
    usual, inputs.BLOCK_BYTES = inputs.BLOCK_BYTES, size
    try:
        return ours(paths, vocab_size)[0]
    finally:
        inputs.BLOCK_BYTES = usual


def whole(paths, vocab_size):
    """Every way to the same merges; gives the seconds of the plain one."""
    started = time.perf_counter()
    mine, _ = ours(paths, vocab_size)
    seconds = time.perf_counter() - started
    for threads in (1, 2, 3):
        compare(f"{threads} threads", mine, ours(paths, vocab_size, threads=threads)[0])
    for size in (1 << 16, 3 << 20, 64 << 20):
        compare(f"blocks of {size >> 10} KiB", mine, in_blocks(paths, vocab_size, size))
    spilled, summary = ours(paths, vocab_size, memory_budget=32 << 20)
    compare(f"{summary['spilled_bytes'] / 1e6:.0f} MB spilled", mine, spilled)
    compare("interrupted and resumed", mine, resumed(paths, vocab_size))
    return mine, seconds


def compare(label, mine, other):
    """Print where two lists of merges part, and exit; or that they do not."""
    for rank, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b:
            print(f"{label}: merge {rank} is {a} here, {b} there")
            sys.exit(1)
    if len(mine) != len(other):
        print(f"{label}: {len(mine)} merges here, {len(other)} there")
        sys.exit(1)
    print(f"{label}: {len(mine):,} merges, all equal", flush=True)


def by_reference(path, documents, vocab_size):
    texts = [text[:2000] for text in islice(texts_of([path]), documents)]
    pieces = reference.pieces_of(texts)
    for tie in ("huggingface", "lexicographic"):
        merged = train_merges(
            iter(texts), TrainingConfig(vocab_size=vocab_size, special_tokens=(), tie_break=tie)
        )
        mine = [(merged.tokens[left], merged.tokens[right]) for left, right in merged.merges]
        compare(f"{path.name}, reference, {tie}", mine, reference.train(pieces, vocab_size, tie))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=ROOT.parent / "shared" / "corpora")
    parser.add_argument("--names", nargs="+", default=["ko", "zh", "en"])
    parser.add_argument("--vocab-size", type=int, default=32_000)
    args = parser.parse_args()
    paths = [args.corpora / f"{name}.jsonl.zst" for name in args.names]
    for path in paths:
        by_reference(path, 60, 456)
    mine, seconds = whole(paths, args.vocab_size)
    started = time.perf_counter()
    other = theirs(paths, args.vocab_size)
    print(f"tokenmill {seconds:.1f} s, Hugging Face {time.perf_counter() - started:.1f} s")
    compare("Hugging Face", mine, other)


if __name__ == "__main__":
    main()
