"""Where a whole job's time goes: every stage of `prepare` alone, on one thread, in MB of JSON Lines per CPU-second.

    python benchmarks/stages.py [--corpora DIR] [--names en,ko,code] [--size 2e8]

A job with two threads runs these side by side: one thread decompresses and parses, two encode, one hashes and writes. No job
can be faster than its slowest thread (a zstd frame is read by one), nor than the sum of all over the cores it has.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from corpora import CORPORA
from grown import grow
from prepare import gpt2, write_parquet
from tokenmill import Tokenizer, _core
from tokenmill.base.texts import Texts
from tokenmill.datasets.packing import RowPacker
from tokenmill.datasets.views import make_view

BLOCK = 4 << 20
COLUMNS = ("attention_mask", "position_ids", "document_ids")
STAGES = (
    "zstd",
    "JSON",
    "Parquet",
    "blank texts",
    "special strings",
    "encode",
    "SHA-256",
    "write",
    "sync",
    "best fit, 3 columns",
)


class Clock:
    """CPU seconds by stage (for `sync` wall seconds, since it is all waiting)."""

    def __init__(self):
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def time(self, stage, work, *arguments, clock=time.process_time):
        started = clock()
        made = work(*arguments)
        self.seconds[stage] += clock() - started
        return made


def blocks(path, clock):
    """Whole lines of a zstd file, some megabytes at a time."""
    rest = b""
    with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
        while data := clock.time("zstd", stream.read, BLOCK):
            whole, _, rest = (rest + data).rpartition(b"\n")
            yield whole + b"\n"


def run(name, size, tokenizer, place, corpora):
    clock, plain = Clock(), place / f"{name}.jsonl"
    with plain.open("wb") as file:
        count = sum(file.write(data) for data in grow(name, size, corpora))
    with plain.open("rb") as source, pa.CompressedOutputStream(f"{plain}.zst", "zstd") as sink:
        while data := source.read(BLOCK):
            sink.write(data)
    with plain.open("rb") as source:
        write_parquet(source, place / "texts.parquet")
    reader = _core.JsonlReader([["text"]], [], limit=1 << 30, replace=False)
    encode = tokenizer.engine.encode_framed
    strings = _core.StringCounter(["<|endoftext|>"])
    packer = RowPacker(make_view(context_length=4096, packing="bestfit"), 0, COLUMNS, marked=False)
    with (place / "out.bin").open("wb", buffering=0) as out:
        for block in blocks(f"{plain}.zst", clock):
            texts = Texts(*clock.time("JSON", reader.read, memoryview(block)).texts)
            clock.time("blank texts", _core.has_blank, texts.data, texts.offsets)
            clock.time("special strings", strings.count, texts.data, texts.offsets)
            ids, ends = clock.time(
                "encode", lambda texts=texts: encode(texts, (None, 50256), "text", threads=1)
            )
            clock.time("SHA-256", lambda ids=ids: hashlib.sha256(memoryview(ids).cast("B")))
            clock.time("write", out.write, memoryview(ids).cast("B"))
            arrays = np.asarray(ids), np.asarray(ends)
            clock.time("best fit, 3 columns", lambda arrays=arrays: list(packer.push(*arrays)))
        clock.time("sync", os.fsync, out.fileno(), clock=time.perf_counter)
    pa.set_cpu_count(1)
    table = clock.time("Parquet", lambda: pq.read_table(place / "texts.parquet", use_threads=False))
    if not len(table):
        sys.exit("no documents")
    return {stage: count / 1e6 / max(seconds, 1e-6) for stage, seconds in clock.seconds.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", default=CORPORA, type=Path)
    parser.add_argument("--names", default="en,ko,code")
    parser.add_argument("--size", type=float, default=2e8)
    options = parser.parse_args()
    print("| MB per CPU-second | " + " | ".join(STAGES) + " |\n|---" + "|---" * len(STAGES) + "|")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tokenizer = Tokenizer.load(gpt2(place / "gpt2"))
        for name in options.names.split(","):
            found = run(name, options.size, tokenizer, place, options.corpora)
            print(f"| {name} | " + " | ".join(f"{found[stage]:,.0f}" for stage in STAGES) + " |", flush=True)


if __name__ == "__main__":
    main()
