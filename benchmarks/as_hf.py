"""`datasets.map(batched=True)`: a tokenizer of transformers and the same files through `as_hf()`, columns compared first.

python benchmarks/as_hf.py CORPUS.jsonl.zst [--megabytes 24] [--threads 2] --tokenizer tokenizer.json
"""

import argparse
import io
import json
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa


def texts_of(path, size):
    """The first documents of a JSON Lines file."""
    raw = pa.input_stream(path, compression="detect")
    texts, taken = [], 0
    for line in io.TextIOWrapper(raw, encoding="utf-8"):
        texts.append(json.loads(line)["text"])
        taken += len(texts[-1].encode())
        if taken >= size:
            break
    return texts, taken


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--megabytes", type=float, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    given = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(given.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    import datasets
    from transformers import PreTrainedTokenizerFast

    from tokenmill import Tokenizer

    datasets.disable_progress_bars()
    datasets.disable_caching()
    tokenizer = Tokenizer.load(given.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        theirs = PreTrainedTokenizerFast.from_pretrained(folder)
        theirs.model_max_length = int(1e30)
    ours = tokenizer.as_hf(model_max_length=int(1e30))
    for corpus in given.corpora:
        texts, size = texts_of(corpus, given.megabytes * 1e6)
        data = datasets.Dataset.from_dict({"text": texts})
        best = {"ours": 9e9, "theirs": 9e9}
        call = {"ours": 9e9, "theirs": 9e9}
        made = {}
        for _ in range(given.turns):
            for name, one in (("ours", ours), ("theirs", theirs)):
                start = time.perf_counter()
                made[name] = data.map(
                    lambda batch, one=one: one(batch["text"]), batched=True, remove_columns="text"
                )
                best[name] = min(best[name], time.perf_counter() - start)
                start = time.perf_counter()
                one(texts[:1000])
                call[name] = min(call[name], time.perf_counter() - start)
        assert made["ours"].features == made["theirs"].features
        for column in made["ours"].column_names:
            assert made["ours"].data.column(column).equals(made["theirs"].data.column(column)), column
        part = sum(len(text.encode()) for text in texts[:1000])
        print(
            f"{Path(corpus).name}: {size / 1e6:.0f} MB, same columns; map {size / 1e6 / best['theirs']:.1f} -> "
            f"{size / 1e6 / best['ours']:.1f} MB/s ({best['theirs'] / best['ours']:.1f}x); the call alone "
            f"{part / 1e6 / call['theirs']:.1f} -> {part / 1e6 / call['ours']:.1f} MB/s "
            f"({call['theirs'] / call['ours']:.1f}x)"
        )


if __name__ == "__main__":
    main()
