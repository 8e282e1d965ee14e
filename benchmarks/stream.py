"""Train straight from text: the time to the first batch, and the CPU time of feeding tokens, against peers.

    python benchmarks/stream.py --corpora DIR [--gigabytes 10] [--nanochat CHECKOUT]

`--corpora` has `*.jsonl.zst` files. Peers: `datasets` in streaming mode with `map` and Hugging Face's tokenizer,
and nanochat's loader from a checkout (it needs torch and tiktoken). All read the same Parquet file with the same
vocabulary, and the ids of the first documents are compared before anything is timed.
"""

import argparse
import compileall
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tokenmill

LENGTH, ROWS, TOKENS = 2048, 8, 240_000_000
# The settings with which nanochat writes its own files.
PARQUET = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
QUIET = {"verbose_level": "ERROR"}


def read_texts(corpora, megabytes):
    """Return English documents of about so many megabytes, repeated if there are fewer."""
    lines = subprocess.run(
        ["zstd", "-dc", corpora / "en.jsonl.zst"], capture_output=True, check=True
    ).stdout.splitlines()
    texts, size = [], 0
    for line in itertools.cycle(lines):
        texts.append(json.loads(line)["text"])
        size += len(texts[-1].encode())
        if size > megabytes << 20:
            break
    return texts


def write_inputs(place, texts, gigabytes):
    """Write a JSON Lines file and a Parquet file of so many gigabytes by repeating the texts."""
    block = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts).encode()
    table = pa.table({"text": texts})
    turns = max(1, int(gigabytes * (1 << 30) / len(block)))
    with (place / "large.jsonl").open("wb") as file:
        for _ in range(turns):
            file.write(block)
    for name, count in (("large.parquet", turns), ("small.parquet", min(turns, 4))):
        with pq.ParquetWriter(place / name, table.schema, **PARQUET) as writer:
            for _ in range(count):
                writer.write_table(table, row_group_size=1024)


FIRST = """
import time; begin = time.monotonic()
import sys, tokenmill
stream = tokenmill.stream(sys.argv[1], sys.argv[2], sys.argv[3], cache_dir=sys.argv[4], verbose_level="ERROR")
next(iter(stream.rows(2048).batches(8, shuffle="local")))
print(time.monotonic() - begin, time.process_time())
"""


def time_first_batch(place, name):
    folder = tempfile.mkdtemp(dir=place)
    command = [
        sys.executable,
        "-c",
        FIRST,
        place / name,
        place / "tokenizer",
        f"{folder}/out",
        f"{folder}/cache",
    ]
    seconds, cpu = map(
        float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    )
    shutil.rmtree(folder)
    return seconds, cpu


def feed_tokenmill(place):
    """Yield batches of a stream with an empty cache, in rows as nanochat's: best fit that begins with BOS."""
    folder = tempfile.mkdtemp(dir=place)
    options = {"cache_dir": folder, "bos": 0, "eos": False, **QUIET}
    stream = tokenmill.stream(place / "small.parquet", place / "tokenizer", f"{folder}/out", **options)
    rows = stream.rows(LENGTH, packing="bestfit", bos_aligned=True)
    for batch in rows.batches(ROWS, shuffle="local"):
        yield batch["input_ids"]


def feed_datasets(place):
    """Yield batches of `datasets` in streaming mode: tokenize by `map`, then group as its own examples do."""
    import datasets
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(place / "tokenizer" / "tokenizer.json"))
    source = datasets.load_dataset(
        "parquet", data_files=str(place / "small.parquet"), split="train", streaming=True
    )

    def encode(batch):
        ids = np.concatenate([each.ids for each in encoder.encode_batch_fast(batch["text"])])
        count = len(ids) // LENGTH
        return {"input_ids": list(ids[: count * LENGTH].reshape(count, LENGTH))}

    rows = source.map(encode, batched=True, batch_size=1000, remove_columns=["text"])
    for batch in rows.repeat(None).shuffle(buffer_size=1000, seed=1).batch(ROWS):
        yield np.asarray(batch["input_ids"])


def feed_nanochat(place, checkout):
    """Yield batches of nanochat's own loader with tiktoken."""
    sys.path.insert(0, str(checkout))
    os.environ["NANOCHAT_BASE_DIR"] = str(place / "nanochat")
    (place / "nanochat" / "base_data_climbmix").mkdir(parents=True, exist_ok=True)
    import tiktoken
    from nanochat import dataloader

    loaded = tokenmill.Tokenizer.load(place / "tokenizer")
    like = loaded.as_tiktoken()  # has the ranks and the pattern that users of tiktoken extend
    ranks, pattern = like._mergeable_ranks, like._pat_str  # noqa: SLF001 - as nanochat's own code does
    encoding = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    texts = pq.ParquetFile(place / "small.parquet").read_row_group(0)["text"].to_pylist()[:200]
    assert encoding.encode_ordinary_batch(texts) == [list(loaded.encode(text)) for text in texts]

    class Encoder:
        def get_bos_token_id(self):
            return 0

        def encode(self, texts, prepend, num_threads):
            return [[prepend, *ids] for ids in encoding.encode_ordinary_batch(texts, num_threads=num_threads)]

    dataloader.list_parquet_files = lambda **_: [str(place / "small.parquet")] * 2
    make = dataloader.tokenizing_distributed_data_loader_with_state_bos_bestfit
    for inputs, _, _ in make(Encoder(), ROWS, LENGTH, "train", device="cpu"):
        yield inputs.numpy()


def measure(feed, tokens, *, start=False):
    """Return tokens per CPU-second of this process and its children, with or without the first batch."""
    if not start:
        next(feed)
    begin, done = sum(os.times()[:4]), 0
    for batch in feed:
        done += batch.size
        if done >= tokens:
            break
    return done / (sum(os.times()[:4]) - begin)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--nanochat", type=Path)
    options = parser.parse_args()
    compileall.compile_dir(Path(tokenmill.__file__).parent, quiet=1)  # as in an installed package
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        texts = read_texts(options.corpora, 256)
        tokenizer = tokenmill.train_from_iterator(
            texts, 32_000, special_tokens=["<|endoftext|>"], progress=False
        )
        tokenizer.save(place / "tokenizer")
        write_inputs(place, texts, options.gigabytes)
        for name in ("large.jsonl", "large.parquet"):
            seconds, cpu = time_first_batch(place, name)
            size = (place / name).stat().st_size / 1e9
            print(f"first batch, {name} ({size:.1f} GB): {seconds:.2f} s, {cpu:.2f} CPU-s")
        from tokenizers import Tokenizer

        other = Tokenizer.from_file(str(place / "tokenizer" / "tokenizer.json"))
        assert [e.ids for e in other.encode_batch(texts[:200])] == [
            list(tokenizer.encode(text)) for text in texts[:200]
        ]
        # Ours makes several shards before the first batch, so that batch counts; the passes do not repeat.
        ours = measure(feed_tokenmill(place), TOKENS, start=True)
        print(
            f"tokenmill: {ours / 1e6:.2f} M tokens per CPU-second; 8 ranks at 50,000 tokens/s: {40_000_000 / ours:.1f} % of a core"
        )
        for name, feed in {
            "datasets streaming + map": feed_datasets(place),
            **({"nanochat": feed_nanochat(place, options.nanochat)} if options.nanochat else {}),
        }.items():
            theirs = measure(feed, TOKENS // 100)
            print(f"{name}: {theirs / 1e6:.2f} M tokens per CPU-second; tokenmill {ours / theirs:.1f}x")


if __name__ == "__main__":
    main()
