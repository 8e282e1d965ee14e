"""Views: building a best-fit index, reading its rows and stored rows, and attention work over ranks.

`python benchmarks/views.py [--documents 10000000] [--only build|read|balance] [--json]`. Token files are
holes, so that 100 M documents take no more than their offsets. Stored rows are the same rows written to disk
and read by position, as a dataset that was packed before training is.
"""

import argparse
import csv
import json
import resource
import sys
import tempfile
import time
from itertools import pairwise, product
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests")]

import tokenmill  # noqa: E402
from small_datasets import publish, write_documents  # noqa: E402
from tokenmill.datasets.formats.files import OFFSETS_MAGIC, make_header  # noqa: E402
from tokenmill.datasets.ledger.manifest import PackingIdentity  # noqa: E402
from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry  # noqa: E402

CONTEXT = 8192
PER_SHARD = 100_000
MOST_TWICE = 20_000_000  # of more documents, only the plain view is built
TURNS = 5
SEEDS = 12


def draw_lengths(rng, count):
    """Return lengths with the median and the tail of web pages; the mean is about 960 tokens."""
    return np.clip(rng.lognormal(6.2, 1.15, count), 8, 400_000).astype(np.int64)


def write_sparse(root, documents):
    rng, entries = np.random.default_rng(1), []
    (root / "shards").mkdir(parents=True)
    for number, first in enumerate(range(0, documents, PER_SHARD)):
        offsets = np.concatenate([[0], np.cumsum(draw_lengths(rng, min(PER_SHARD, documents - first)))])
        name, tokens = f"{number:05}-{number:016x}", int(offsets[-1])
        index = make_header(OFFSETS_MAGIC, len(offsets) - 1) + offsets.astype("<u8").tobytes()
        with (root / f"shards/{name}.bin").open("wb") as file:
            file.truncate(2 * tokens)
        (root / f"shards/{name}.idx").write_bytes(index)
        files = (
            FileEntry("tokens", f"shards/{name}.bin", 2 * tokens, "0" * 64),
            FileEntry("offsets", f"shards/{name}.idx", len(index), f"{number:064x}"),
        )
        entries.append(ShardEntry(name, f"{number:064x}", len(offsets) - 1, tokens, 0, files))
    return publish(root, entries, PackingIdentity(eos_id=0), "uint16")


def build(root, documents):
    """Return the seconds, memory and fill of a best-fit view, and the seconds to open it again."""
    data = tokenmill.open(write_sparse(root, documents))
    found = {"documents": documents, "tokens": data.num_tokens}
    views = {"plain": {}, "multiple of 4": {"multiple_of": 4}, "multiple of 16": {"multiple_of": 16}}
    for name, options in list(views.items())[: 1 if documents > MOST_TWICE else 3]:
        wall, cpu = time.perf_counter(), time.process_time()
        rows = data.rows(CONTEXT, packing="bestfit", **options)
        account = rows.account()
        took = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        wall = time.perf_counter()
        len(tokenmill.open(root).rows(CONTEXT, packing="bestfit", **options))
        took["open_again_seconds"] = time.perf_counter() - wall
        found[name] = took | {"fill": 1 - account["padding"] / (account["rows"] * CONTEXT)}
    found["index_bytes"] = sum(path.stat().st_size for path in (root / "views").iterdir())
    found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def read(root, tokens, shards, batch=32):
    """Return rows per second of shuffled batches: of the view, and of the same rows stored."""
    rng, parts = np.random.default_rng(2), []
    for _ in range(shards):
        lengths = draw_lengths(rng, tokens // shards // 960)
        ids = rng.integers(0, 50_000, int(lengths.sum()), dtype=np.uint16)
        parts.append(np.split(ids, np.cumsum(lengths)[:-1]))
    view = tokenmill.open(write_documents(root / "documents", parts)).rows(CONTEXT, packing="bestfit")
    starts = [*view.layout.row_starts]
    stored = [[view[row] for row in range(a, b)] for a, b in pairwise(starts)]
    rows = tokenmill.open(write_documents(root / "stored", stored)).rows(CONTEXT)
    assert len(rows) == len(view)
    chosen = np.random.default_rng(3).permutation(len(rows))
    chosen = chosen[: len(chosen) // batch * batch].reshape(-1, batch)
    assert all(np.array_equal(view.gather(c)["input_ids"], rows.gather(c)["input_ids"]) for c in chosen[:5])
    times = dict.fromkeys(("view", "stored"), float("inf"))
    for _ in range(TURNS):
        for name, source in (("view", view), ("stored", rows)):
            began = time.process_time()
            for each in chosen:
                source.gather(each)
            times[name] = min(times[name], time.process_time() - began)
    return {f"{name}_rows_per_second": chosen.size / seconds for name, seconds in times.items()} | {
        "ratio": times["stored"] / times["view"],
        "shards": shards,
        "documents_per_row": sum(map(len, parts)) / len(rows),
    }


def measure_balance(root, documents):
    """Measure the work of ranks and of parts of an epoch over `SEEDS` seeds. Write `results/balance.csv`.

    Returns:
        For each order, the work of the slowest rank of each step over the mean of its ranks, averaged over
        steps, and the difference of the worst third and tenth of an epoch from the mean, as the average and
        the maximum over the seeds.
    """
    rows = tokenmill.open(write_sparse(root, documents)).rows(CONTEXT, packing="bestfit")
    work, table = rows.measure_work(np.arange(len(rows))), []
    for balance in (False, True):
        found = {"order": "balanced" if balance else "shuffled", "rows": len(rows)}
        orders = [rows.batches(1, shuffle=True, seed=s, balance=balance).order for s in range(SEEDS)]
        epochs = [work[order.rows(np.arange(len(rows)))] / work.mean() for order in orders]
        for ranks, batch in product((8, 64), (1, 4)):
            steps = epochs[0][: len(rows) // (ranks * batch) * ranks * batch].reshape(-1, batch, ranks)
            per_rank = steps.sum(axis=1)
            slowest = (per_rank.max(axis=1) / per_rank.mean(axis=1)).mean()
            found[f"slowest of {ranks} ranks, batch {batch}"] = f"{slowest:.3f}"
        for name, parts in (("third", 3), ("tenth", 10)):
            worst = [max(abs(part.mean() - 1) for part in np.array_split(each, parts)) for each in epochs]
            found[f"worst {name}, average"] = f"{np.mean(worst):.2%}"
            found[f"worst {name}, maximum"] = f"{np.max(worst):.2%}"
        table.append(found)
    with (ROOT / "benchmarks" / "results" / "balance.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--tokens", type=int, default=40_000_000)
    parser.add_argument("--only", choices=("build", "read", "balance"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as home:
        place = Path(home)
        if options.only in (None, "build"):
            found["build"] = build(place / "build", options.documents)
        if options.only in (None, "read"):
            found["read"] = [read(place / f"read{n}", options.tokens, n) for n in (1, 64)]
        if options.only in (None, "balance"):
            found["balance"] = measure_balance(place / "balance", 1_000_000)
    print(json.dumps(found, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
