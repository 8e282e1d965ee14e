"""Decoding speed beside the peers: flat ids back to bytes or text, one thread, outputs compared first.

`python benchmarks/decode.py [--corpora DIR] [--megabytes 8] [--turns 7] [--only en,zh] [--vocabularies cl100k]`

*flat*: one array of the ids of all documents -> the bytes of all. *texts*: one array or list for each document ->
one str each. Every peer gets ids in the form that it takes fastest; making that form is not timed. Peers take turns
in one process, the best turn counts, CPU time. Prints a Markdown table and writes `benchmarks/results/decode.json`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402

import corpora  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402


def decoders(vocabulary, path, batch):
    """{peer: {form: action}}, each action a whole decode of the batch."""
    flat = batch.ids.astype(np.uint32)
    lists, one = batch.to_lists(), flat.tolist()
    arrays = [ids.astype(np.uint32) for ids in batch]
    made = {name: peers.PEERS[name](vocabulary, path, 1).tokenizer for name in peers.PEERS}
    ours, giga, fast = made["tokenmill"], made["gigatoken"], made["fastokens"]
    tik, hf = made["tiktoken"], made["tokenizers"]
    return {
        "tokenmill": {
            "flat": lambda: ours.decode_bytes(batch.ids),
            "texts": lambda: ours.decode_batch(batch),
        },
        "gigatoken": {
            "flat": lambda: giga.decode(flat),
            "texts": lambda: [giga.decode(ids).decode() for ids in arrays],
        },
        "fastokens": {
            "flat": lambda: fast.decode(one).encode(),
            "texts": lambda: fast.decode_batch(lists),
        },
        "tiktoken": {
            "flat": lambda: tik.decode_bytes(one),
            "texts": lambda: tik.decode_batch(lists, num_threads=1),
        },
        "tokenizers": {
            "flat": lambda: hf.decode(one, skip_special_tokens=False).encode(),
            "texts": lambda: hf.decode_batch(lists, skip_special_tokens=False),
        },
    }


def best(actions, form, turns):
    """{peer: CPU seconds of its best turn}; None where it cannot give the text back."""
    expected = actions["tokenmill"][form]()
    seconds = {}
    for name, forms in actions.items():
        same = forms[form]() == expected
        seconds[name] = float("inf") if same else None
    for _ in range(turns):
        for name, known in seconds.items():
            if known is None:
                continue
            start = time.process_time()
            actions[name][form]()
            seconds[name] = min(known, time.process_time() - start)
    return seconds


def measure(options):
    """{"vocabulary corpus form": {peer: MB per CPU-second}}."""
    paths = corpora.vocabulary_files(options.scratch)
    cells = {}
    for name in options.only:
        texts, _ = corpora.halves(corpora.documents(name, options.corpora), options.megabytes)
        size = sum(len(text.encode()) for text in texts) / 1e6
        for vocabulary in options.vocabularies:
            tokenizer = peers.Tokenmill(vocabulary, paths[vocabulary], 1).tokenizer
            batch = tokenizer.encode_batch(texts, special="text", threads=1)
            if tokenizer.decode_batch(batch) != texts:
                raise SystemExit(f"{vocabulary} {name}: decoding does not give the texts back")
            actions = decoders(vocabulary, paths[vocabulary], batch)
            for form in ("flat", "texts"):
                found = best(actions, form, options.turns)
                cells[f"{vocabulary} {name} {form}"] = {
                    peer: None if seconds is None else size / seconds for peer, seconds in found.items()
                }
    return cells


def table(cells):
    """Markdown: MB per CPU-second, and ours over each other's."""
    others = [name for name in peers.PEERS if name != "tokenmill"]
    lines = ["| cell | tokenmill | " + " | ".join(others) + " |", "|---" * (len(others) + 2) + "|"]
    for cell, speeds in cells.items():
        ours = speeds["tokenmill"]
        told = [
            "other bytes" if speeds[name] is None else f"{speeds[name]:.0f} ({ours / speeds[name]:.1f}x)"
            for name in others
        ]
        lines.append(f"| {cell} | {ours:.0f} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def main():
    split = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", type=split, default=list(corpora.NAMES))
    parser.add_argument("--vocabularies", type=split, default=list(corpora.VOCABULARIES))
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    cells = measure(options)
    report = {"machine": machine.described(), "versions": peers.versions(), "cells": cells}
    (options.scratch / "decode.json").write_text(json.dumps(report, indent=1))
    print(f"MB of text per CPU-second, one thread, {report['machine']}; {report['versions']}\n")
    print(table(cells))


if __name__ == "__main__":
    main()
