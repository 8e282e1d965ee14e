"""Merges beside those of Hugging Face's trainer, one by one, on whole corpora.

    python benchmarks/train_parity.py [--corpora ../shared/corpora] [--names ko zh en] [--vocab-size 32000]

Exits with 1 at the first difference and shows both sides of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenmill.config.schema import SourceConfig
from tokenmill.jobs.train import TrainRequest, run
from tokenmill.sources import discover, ranges, read_blocks, settle
from tokenmill.tokenizer.alphabet import chars_of
from tokenmill.training.options import TrainOptions

ROOT = Path(__file__).resolve().parent.parent


def texts_of(paths):
    config = SourceConfig(inputs=tuple(map(str, paths)))
    files = discover(config)
    config, _ = settle(config, files)
    for file in files:
        for part in ranges(file, 1 << 30):
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


def ours(paths, vocab_size):
    trained = run(TrainRequest([str(path) for path in paths], TrainOptions(vocab_size), progress=False))
    model = trained.tokenizer.recipe.model
    spell = [chars_of(token) for token in model.tokens]
    return [(spell[left], spell[right]) for left, right in model.merges]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=ROOT.parent / "shared" / "corpora")
    parser.add_argument("--names", nargs="+", default=["ko", "zh", "en"])
    parser.add_argument("--vocab-size", type=int, default=32_000)
    args = parser.parse_args()
    paths = [args.corpora / f"{name}.jsonl.zst" for name in args.names]
    started = time.perf_counter()
    mine = ours(paths, args.vocab_size)
    between = time.perf_counter()
    other = theirs(paths, args.vocab_size)
    print(f"tokenmill {between - started:.1f} s, Hugging Face {time.perf_counter() - between:.1f} s")
    for rank, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b:
            print(f"merge {rank}: tokenmill {a}, Hugging Face {b}")
            sys.exit(1)
    print(f"{len(mine)} and {len(other)} merges, all equal" if len(mine) == len(other) else "lengths differ")
    sys.exit(len(mine) != len(other))


if __name__ == "__main__":
    main()
