"""Opening a 10 GB dataset, and random rows against `datasets.load_from_disk` and a bare `np.memmap`.

`python benchmarks/read.py [--rows 20000] [--json]`. Each row is copied out, so that all readers touch the
same bytes; the readers take turns, and the best of the turns counts. The goals: open under 50 ms, at least
5x `datasets`, within 1.5x of memmap.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

import tokenmill  # noqa: E402
from small_datasets import publish, write_documents  # noqa: E402
from tokenmill.datasets.formats.files import OFFSETS_MAGIC, make_header  # noqa: E402
from tokenmill.datasets.ledger.manifest import PackingIdentity  # noqa: E402
from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry  # noqa: E402

CONTEXT = 2048
TURNS = 5


def sparse(root, total_bytes, shard_bytes=32 << 20, document=1000):
    """A dataset of any size that takes no room: its token files are holes."""
    entries = []
    (root / "shards").mkdir(parents=True)
    tokens = shard_bytes // 2
    offsets = np.append(np.arange(0, tokens, document, dtype="<u8"), np.uint64(tokens))
    index = make_header(OFFSETS_MAGIC, len(offsets) - 1) + offsets.tobytes()
    for number in range(total_bytes // shard_bytes):
        name = f"{number:05}-{number:016x}"
        with (root / f"shards/{name}.bin").open("wb") as file:
            file.truncate(shard_bytes)
        (root / f"shards/{name}.idx").write_bytes(index)
        files = (
            FileEntry("tokens", f"shards/{name}.bin", shard_bytes, "0" * 64),
            FileEntry("offsets", f"shards/{name}.idx", len(index), "0" * 64),
        )
        entries.append(ShardEntry(name, f"{number:064x}", len(offsets) - 1, tokens, 0, files))
    return publish(root, entries, PackingIdentity(), "uint16")


def opening(root):
    sparse(root, 10 * 10**9)
    times = []
    for _ in range(TURNS):
        began = time.perf_counter()
        dataset = tokenmill.open(root)
        assert dataset.rows(CONTEXT)[-1].sum() == 0
        times.append(time.perf_counter() - began)
    return {
        "bytes": 2 * dataset.num_tokens,
        "seconds": sorted(times)[TURNS // 2],
        "worst_seconds": max(times),
    }


def readers(root, tokens):
    """Name -> a function from a row's number to its ids, over the same random tokens."""
    ids = np.random.default_rng(1).integers(0, 50_000, tokens, dtype=np.uint16)
    parts = np.array_split(ids, 8)
    write_documents(
        root / "ours", [[part[i : i + 1000] for i in range(0, len(part), 1000)] for part in parts]
    )
    ids.tofile(root / "flat.bin")
    rows = tokenmill.open(root / "ours").rows(CONTEXT)
    flat = np.memmap(root / "flat.bin", dtype=np.uint16, mode="r")
    made = {
        "tokenmill": lambda i: np.array(rows[i]),
        "np.memmap": lambda i: np.array(flat[i * CONTEXT : (i + 1) * CONTEXT]),
    }
    try:
        import datasets
    except ImportError:
        return made, len(rows)
    datasets.disable_progress_bars()
    rows.to_hf().save_to_disk(root / "hf")
    loaded = datasets.load_from_disk(str(root / "hf")).with_format("numpy")
    made["datasets.load_from_disk"] = lambda i: loaded[i]["input_ids"]
    return made, len(rows)


def random_rows(root, tokens, count):
    made, total = readers(root, tokens)
    chosen = np.random.default_rng(2).integers(0, total, count).tolist()
    for number in chosen[:20]:
        expected = made["np.memmap"](number).tolist()
        assert all(read(number).tolist() == expected for read in made.values())
    times = dict.fromkeys(made, float("inf"))
    counts = {name: count if name != "datasets.load_from_disk" else count // 10 for name in made}
    for _ in range(TURNS):
        for name, read in made.items():
            began = time.perf_counter()
            for number in chosen[: counts[name]]:
                read(number)
            times[name] = min(times[name], (time.perf_counter() - began) / counts[name])
    return {name: 1 / seconds for name, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--tokens", type=int, default=50_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        opened = opening(Path(home) / "sparse")
        rates = random_rows(Path(home), options.tokens, options.rows)
    if options.json:
        print(json.dumps({"open": opened, "rows_per_second": rates}))
        return
    took = f"{opened['seconds'] * 1e3:.1f} ms (median of {TURNS})"
    print(f"open {opened['bytes'] / 1e9:.1f} GB and read its last row: {took}")
    print(f"{'random rows of ' + str(CONTEXT):28} {'rows/s':>10} {'ours is':>9}")
    for name, rate in rates.items():
        print(f"{name:28} {rate:10,.0f} {rates['tokenmill'] / rate:8.2f}x")


if __name__ == "__main__":
    main()
