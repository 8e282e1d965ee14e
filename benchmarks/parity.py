"""Ids against tiktoken, HF tokenizers and sentencepiece over every document of the corpora: says 0 when exact.

python benchmarks/parity.py [CORPORA] [--names gpt2,cl100k_base] [--most 1000]
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "parity"))


def documents(path, most):
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import cut_ranges, discover, read_blocks

    source = SourceConfig(inputs=(str(path),), text_field="text")
    count = 0
    for file in discover(source):
        for part in cut_ranges(file, 64 << 20):
            for block in read_blocks(file, part, source, block_bytes=1 << 20):
                texts = block.texts.slice(0, most - count) if most else block.texts
                count += len(texts)
                yield texts
                if most and count >= most:
                    return


def compare(name, corpora, most):
    from vocabularies import case

    tokenizer, reference = case(name)
    total = differing = 0
    start = time.perf_counter()
    for path in corpora:
        for texts in documents(path, most):
            docs = texts.to_pylist()
            got = tokenizer.encode_batch(texts, special="text").to_lists()
            want = reference(docs)
            total += len(docs)
            differing += sum(mine != theirs for mine, theirs in zip(got, want, strict=True))
    seconds = time.perf_counter() - start
    print(
        f"{name:<14} {total:>7,} documents  {differing} differ  {seconds:6.0f} s  {tokenizer.strategy}",
        flush=True,
    )
    return differing


def main():
    from vocabularies import NAMES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="?", default=ROOT.parent / "shared" / "corpora", type=Path)
    parser.add_argument("--names", default=",".join(NAMES), help="Which vocabularies, with commas.")
    parser.add_argument("--most", type=int, default=0, help="Only this many documents of each corpus.")
    arguments = parser.parse_args()
    corpora = sorted(path for path in arguments.corpora.iterdir() if ".jsonl" in path.name)
    differing = sum(compare(name, corpora, arguments.most) for name in arguments.names.split(","))
    print(f"{differing} differing documents")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
