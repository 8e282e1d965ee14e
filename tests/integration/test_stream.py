"""`tokenmill.stream`: the rows of the prepared dataset, made while they are read, from any state."""

import hashlib
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from platform import node

import numpy as np
import pytest

import tokenmill
from object_store import bucket, s3_endpoint  # noqa: F401
from tokenmill.datasets.order import LocalOrder, derive
from tokenmill.datasets.store import ObjectStore
from tokenmill.datasets.trace import History
from tokenmill.errors import ConfigError, DatasetError, InputError, ResumeError, TokenmillError

QUIET = {"verbose_level": "ERROR", "unit_bytes": "16KiB"}
VIEWS = [{}, {"tail": "pad"}, {"packing": "bestfit"}, {"packing": "separate"}, {"multiple_of": 4}]
RANK = Path(__file__).with_name("stream_rank.py")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus in JSON Lines and Parquet, a tokenizer, and the prepared dataset."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root, chance = tmp_path_factory.mktemp("stream"), random.Random(1)
    words = ["mill", "turns", "text", "into", "tokens", "and", "the", "river", "drives", "it"]
    texts = [" ".join(chance.choices(words, k=chance.randint(1, 200))) for _ in range(1200)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (root / "corpus.jsonl").write_text(lines)
    pq.write_table(pa.table({"text": texts}), root / "corpus.parquet", row_group_size=40)
    tokenmill.train_from_iterator(texts, 300, special_tokens=["<|endoftext|>"], progress=False).save(
        root / "tokenizer"
    )
    tokenmill.prepare(root / "corpus.jsonl", root / "tokenizer", root / "prepared", **QUIET)
    return root


def open_stream(place, tmp_path, source="corpus.jsonl", **options):
    options = {**QUIET, "cache_dir": tmp_path / "cache", **options}
    return tokenmill.stream(place / source, place / "tokenizer", tmp_path / "output", **options)


def take(feed, count):
    return [batch["input_ids"] for batch, _ in zip(feed, range(count), strict=False)]


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_rows_are_those_of_the_prepared_dataset(place, tmp_path, view, world_size):
    columns = ["labels", "position_ids"]
    options = {"shuffle": "local", "seed": 3, "world_size": world_size, "window": 3}
    streamed = open_stream(place, tmp_path).rows(64, columns=columns, **view)
    prepared = tokenmill.open(place / "prepared").rows(64, columns=columns, per_shard=True, **view)
    for rank in range(world_size):
        epoch = list(prepared.batches(4, rank=rank, **options))
        made = iter(streamed.batches(4, rank=rank, **options))
        for batch in epoch:
            other = next(made)
            for key, value in batch.items():
                np.testing.assert_array_equal(other[key][: len(value)], value)


def test_a_state_continues_on_other_ranks_and_in_the_prepared_dataset(place, tmp_path):
    rows = open_stream(place, tmp_path).rows(64)
    feed = rows.batches(6, shuffle="local", seed=2, lanes=2, window=2)
    before = take(feed, 7)
    state = json.loads(json.dumps(feed.state_dict()))
    after = np.concatenate(take(feed, 5))
    assert len(before) == 7
    for source in (rows, tokenmill.open(place / "prepared").rows(64, per_shard=True)):
        parts = []
        for rank in range(3):
            resumed = source.batches(2, shuffle="local", seed=2, rank=rank, world_size=3)
            resumed.load_state_dict(state)
            parts.append(take(resumed, 5))
        merged = [
            row for step in zip(*parts, strict=True) for pair in zip(*step, strict=True) for row in pair
        ]
        np.testing.assert_array_equal(np.stack(merged), after)
    with pytest.raises(DatasetError, match="pass the same shuffle"):
        tokenmill.open(place / "prepared").rows(64, per_shard=True).batches(
            2, shuffle=True, seed=2
        ).load_state_dict(state)


def test_the_cache_stays_within_its_size_and_a_small_one_is_an_error(place, tmp_path):
    stream = open_stream(place, tmp_path, cache="80kB")
    rows = stream.rows(64)
    prepared = tokenmill.open(place / "prepared").rows(64, per_shard=True)
    options = {"shuffle": "local", "seed": 1, "window": 1}
    most = 0
    for batch, other in zip(prepared.batches(8, **options), rows.batches(8, **options), strict=False):
        np.testing.assert_array_equal(batch["input_ids"], other["input_ids"][: len(batch["input_ids"])])
        used = 0
        for path in (stream.shards.root / "shards").glob("0*"):
            with suppress(FileNotFoundError):  # removed by the background thread
                used += path.stat().st_size
        most = max(most, used)
    assert 0 < most <= 80_000
    left = stream.shards.root / "shards" / f".tmp-{node()}-999999999-0-of-a-killed-run.bin"
    left.write_bytes(b"not counted")
    open_stream(place, tmp_path, cache="80kB")
    assert not left.exists()
    with pytest.raises(ConfigError, match=r"cache of 20,000 bytes .* more are needed"):
        next(iter(open_stream(place, tmp_path / "small", cache=20_000).rows(64).batches(2)))


def test_prepare_on_the_same_directory_makes_every_shard(place, tmp_path):
    stream = open_stream(place, tmp_path)
    next(iter(stream.rows(64).batches(2, shuffle="local")))
    with pytest.raises(DatasetError, match="is unfinished"):
        tokenmill.open(tmp_path / "output")
    made = tokenmill.prepare(
        place / "corpus.jsonl", place / "tokenizer", tmp_path / "output", verbose_level="ERROR"
    )
    assert made.content_hash == tokenmill.open(place / "prepared").content_hash
    again = open_stream(place, tmp_path).rows(64).batches(2, shuffle="local")
    np.testing.assert_array_equal(
        take(again, 1)[0], take(made.rows(64, per_shard=True).batches(2, shuffle="local"), 1)[0]
    )


def test_parquet_copies_in_other_processes_and_trace(place, tmp_path):
    stream = open_stream(place, tmp_path, "corpus.parquet")
    feed = stream.rows(64).batches(2, shuffle="local", seed=1)
    first = take(feed, 3)
    copy = pickle.loads(pickle.dumps(stream)).rows(64).batches(2, shuffle="local", seed=1)
    np.testing.assert_array_equal(np.stack(take(copy, 3)), np.stack(first))
    traced = copy.trace(1)
    assert [row.spans[0].length > 0 for row in traced] == [True, True]
    assert all(
        np.array_equal(stream.rows(64)[row.row], ids) for row, ids in zip(traced, first[1], strict=True)
    )


def test_wrong_input(place, tmp_path):
    source = tmp_path / "corpus.jsonl"
    shutil.copy(place / "corpus.jsonl", source)
    stream = open_stream(place, tmp_path, source)
    feed = iter(stream.rows(64).batches(2, shuffle="local", window=1))
    next(feed)
    source.write_text('{"text": "other"}\n')
    with pytest.raises(TokenmillError, match=r"corpus\.jsonl: the file changed after the job was planned"):
        for _ in feed:
            pass
    with pytest.raises(ResumeError, match="has changed"):
        open_stream(place, tmp_path, source)
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "one"}\n{"text": oh\n')
    with pytest.raises(InputError, match=r"broken\.jsonl"):
        next(iter(open_stream(place, tmp_path / "b", broken).rows(2).batches(1)))
    skipped = open_stream(place, tmp_path / "s", broken, on_error="skip")
    assert skipped.rows(2).batches(1).__iter__().__next__()["input_ids"].shape == (1, 2)
    assert skipped.shards.receipt(0).account.rejected.total() == 1
    with pytest.raises(ConfigError, match="use shuffle='local'"):
        stream.rows(64).batches(2, shuffle=True)
    with pytest.raises(TypeError, match="its rows are not counted"):
        len(stream.rows(64))
    with pytest.raises(ConfigError, match="deduplicate"):
        open_stream(place, tmp_path, deduplicate=True)
    with pytest.raises(ConfigError, match="expected a size"):
        open_stream(place, tmp_path, cache="much")
    with pytest.raises(ConfigError, match="format tokenmill"):
        open_stream(place, tmp_path / "m", format="megatron")


def test_a_document_is_found_in_every_pass(place, tmp_path):
    rows = open_stream(place, tmp_path).rows(64)
    run = {"seed": 1, "world_size": 2}
    feed = rows.batches(4, shuffle="local", rank=1, window=3, **run)
    history = History(feed)
    wanted, steps = feed.trace(3)[2].spans[0].document, 700
    found = [(each.step, each.place) for each in history.find([wanted], until=steps) if each.rank == 1]
    where = {row.row for row in history.find([wanted], until=steps)}
    order = feed.order
    read = [order.rows(8 * step + 1 + 2 * np.arange(4)).tolist() for step in range(steps)]
    seen = [(step, at) for step, batch in enumerate(read) for at, row in enumerate(batch) if row in where]
    assert found == seen
    assert (3, 2) in found
    assert len(found) >= 2 * len(where)
    with pytest.raises(ConfigError, match="give until"):
        history.find([wanted])


def test_a_stream_in_a_mixture(place, tmp_path):
    prepared, streamed = tokenmill.open(place / "prepared").rows(64), open_stream(place, tmp_path).rows(64)
    sources = {"prepared": prepared, "streamed": streamed}
    mixture = tokenmill.Mixture(sources, [1, 3], seed=2, steps=400)
    feeds = [mixture.batches(2, rank=rank, world_size=2) for rank in range(2)]
    batches = [batch for feed in feeds for batch in feed]
    ids = np.concatenate([batch["input_ids"] for batch in batches])
    source = np.concatenate([batch["source_ids"] for batch in batches])
    assert (len(ids), source.sum()) == (400, 300)
    alone = LocalOrder(streamed.layout, seed=derive(2, 1, 0), local=(1, 8)).rows(np.arange(300))
    expected = sorted(row.tobytes() for row in streamed.gather(alone)["input_ids"])
    assert sorted(row.tobytes() for row in ids[source == 1]) == expected
    state = feeds[0].state_dict()
    resumed = mixture.batches(4)
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert next(iter(resumed))["input_ids"].shape == (4, 64)
    assert mixture.account()["sources"][1]["epochs"] is None
    with pytest.raises(ConfigError, match=r"streamed is a stream.*set steps"):
        tokenmill.Mixture(sources, [1, 3])


@pytest.mark.s3
def test_receipts_in_a_store_and_prepare_there(place, tmp_path, bucket):  # noqa: F811
    output = f"{bucket}/streamed"
    stream = tokenmill.stream(
        place / "corpus.jsonl", place / "tokenizer", output, cache_dir=tmp_path / "a", **QUIET
    )
    feed = stream.rows(64, packing="bestfit").batches(4, shuffle="local", seed=1, window=2)
    first = take(feed, 4)
    other = tokenmill.stream(
        place / "corpus.jsonl", place / "tokenizer", output, cache_dir=tmp_path / "b", **QUIET
    )
    assert other.shards.receipt(0).shard.files == stream.shards.receipt(0).shard.files
    np.testing.assert_array_equal(
        np.stack(take(other.rows(64, packing="bestfit").batches(4, shuffle="local", seed=1, window=2), 4)),
        np.stack(first),
    )
    made = tokenmill.prepare(place / "corpus.jsonl", place / "tokenizer", output, **QUIET)
    prepared = made.rows(64, packing="bestfit").batches(4, shuffle="local", seed=1, window=2)
    np.testing.assert_array_equal(np.stack(take(prepared, 4)), np.stack(first))


@pytest.mark.s3
def test_a_rank_fetches_only_the_shards_of_its_lanes(place, tmp_path, bucket, monkeypatch):  # noqa: F811
    output, world_size, fetched = f"{bucket}/prepared", 3, []
    tokenmill.prepare(place / "corpus.jsonl", place / "tokenizer", output, **QUIET)
    fetch = ObjectStore.fetch

    def count(store, name, path):
        fetch(store, name, path)
        fetched.append(Path(path).stat().st_size)

    monkeypatch.setattr(ObjectStore, "fetch", count)
    used = {}
    for order in (True, "local"):
        fetched.clear()
        for rank in range(world_size):
            monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / f"{order}-{rank}"))
            rows = tokenmill.open(output).rows(64, per_shard=True)
            for _ in rows.batches(8, shuffle=order, seed=1, rank=rank, world_size=world_size, window=2):
                pass
        used[order] = sum(fetched)
    manifest = tokenmill.open(output).manifest
    size = sum(file.bytes for shard in manifest.shards for file in shard.files)
    # Every rank reads the offsets of all shards, since it counts their rows.
    offsets = sum(file.bytes for shard in manifest.shards for file in shard.files if file.role == "offsets")
    assert used["local"] < 1.1 * (size - offsets) + world_size * offsets
    assert used[True] == world_size * size


def run_killed(place, root, kills, seed):
    """Read one epoch with ranks that are killed at random; return the rows by their position."""
    chance, state, found, legs = random.Random(seed), None, [], 0
    shutil.copytree(place / "tokenizer", root / "tokenizer")
    prepared = tokenmill.open(place / "prepared").rows(64, packing="bestfit")
    while len(found) < len(prepared):
        world, leg = chance.choice([1, 2, 3]), f"leg-{legs}"
        settings = {
            "root": str(root),
            "inputs": str(place / "corpus.jsonl"),
            "world_size": world,
            "state": state,
        }
        settings |= {
            "leg": leg,
            "cache": "cache",
            "cache_bytes": "400kB",
            "unit_bytes": "16KiB",
            "until": len(prepared),
        }
        path = os.pathsep.join(filter(None, sys.path))
        processes = [
            subprocess.Popen(
                [sys.executable, RANK, json.dumps(settings | {"rank": rank})],
                env={**os.environ, "PYTHONPATH": path},
            )
            for rank in range(world)
        ]
        if legs < kills:
            steps = chance.randint(1, 12)
            while any(process.poll() is None for process in processes):
                if sum(1 for _ in (root / leg).glob("0-*.json")) >= steps:
                    break
                time.sleep(0.01)
            for process in processes:
                process.kill()
        codes = [process.wait(120) for process in processes]
        assert legs < kills or codes == [0] * world
        done = (
            min(sum(1 for _ in (root / leg).glob(f"{rank}-*.json")) for rank in range(world))
            if (root / leg).exists()
            else 0
        )
        for step in range(done):
            records = [json.loads((root / leg / f"{rank}-{step}.json").read_text()) for rank in range(world)]
            found += [
                row for rows in zip(*(record["rows"] for record in records), strict=True) for row in rows
            ]
            state = records[0]["state"]
        legs += 1
    return found, prepared, legs


def check_killed(place, root, kills, seed):
    found, prepared, legs = run_killed(place, root, kills, seed)
    expected = [
        hashlib.sha256(row.tobytes()).hexdigest()
        for batch in prepared.batches(1, shuffle="local", seed=5, window=2, lanes=3)
        for row in batch["input_ids"]
    ]
    assert found[: len(expected)] == expected
    return legs


def test_killed_ranks_continue_at_the_next_row(place, tmp_path):
    assert check_killed(place, tmp_path, 3, 1) > 3


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_killed_ranks_200_times(place, tmp_path):
    legs = sum(
        check_killed(place, tmp_path / str(turn), 10, turn)
        for turn in range(20)
        if not (tmp_path / str(turn)).mkdir()
    )
    assert legs > 200
