"""A trace predicts every row of every step of a recorded run, and finds every occurrence of a document."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenmill
from small_datasets import documents_shard, numbered, publish, write_documents
from tokenmill.datasets.ledger.manifest import PackingIdentity
from tokenmill.datasets.trace import History, list_sources

LENGTH = 5


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """One corpus of three shards, as it was with one, two and all of them; every token is another number."""
    lengths = np.random.default_rng(1).integers(0, 12, size=60)
    ends = np.cumsum(lengths)
    documents = [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]
    shards = [documents[:20], documents[20:45], documents[45:]]
    found = []
    for count in (1, 2, 3):
        root = tmp_path_factory.mktemp("grown") / str(count)
        entries = [documents_shard(root, nth, shard, "uint32") for nth, shard in enumerate(shards[:count])]
        found.append(publish(root, entries, PackingIdentity(), "uint32"))
    return found


def record(segments, *, seed=None):
    """Run every rank of every segment for some steps; return for each what was read, and a feed at its start."""
    found, state = [], None
    for rows, world_size, batch_size, steps, drop_last in segments:
        feeds = [
            rows.batches(
                batch_size,
                rank=rank,
                world_size=world_size,
                drop_last=drop_last,
                **({} if seed is None else {"shuffle": True, "seed": seed}),
            )
            for rank in range(world_size)
        ]
        seen = []
        for rank, feed in enumerate(feeds):
            if state is not None:
                feed.load_state_dict(state)
            done = 0
            while done < steps:
                before = done
                for batch in feed:
                    seen += [
                        (done, rank, place, ids.tolist()) for place, ids in enumerate(batch["input_ids"])
                    ]
                    done += 1
                    if done == steps:
                        break
                if before == done and feed.epoch > 50:
                    break  # this rank never gets a row
        state = feeds[0].state_dict()
        found.append((feeds[0], sorted(seen), steps))
    return found


def check(feed, seen, steps):
    """Forward: every row. Reverse: every document is found where it was seen, and nowhere else."""
    history, source = History(feed), feed.source
    predicted = []
    for step in range(steps):
        for row in history.trace(step):
            owner = list_sources(source)[row.source]
            ids = owner[row.row].tolist()
            predicted.append((row.step, row.rank, row.place, ids))
            for part in row.spans:
                whole = owner.dataset[part.document].tolist()
                assert (
                    whole[part.start : part.start + part.length] == ids[part.place : part.place + part.length]
                )
    assert sorted(predicted) == seen
    for nth, each in enumerate(list_sources(source)):
        for document in range(0, len(each.dataset), 11):
            tokens = set(each.dataset[document].tolist())
            expected = [(step, rank, place) for step, rank, place, ids in seen if tokens & set(ids)]
            found = history.find([document], source=nth, until=steps)
            assert [(row.step, row.rank, row.place) for row in found] == expected
            assert all({part.document for part in row.spans} == {document} for row in found)


@given(data=st.data())
def test_every_row_of_a_run_that_changed_and_grew(grown, data):
    overlap = data.draw(st.integers(0, 2))
    drop_last = data.draw(st.booleans())
    seed = data.draw(st.none() | st.integers(0, 9))
    count = data.draw(st.integers(1, 3))
    sizes = sorted(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    segments = [
        (
            tokenmill.open(grown[size]).rows(LENGTH, overlap),
            data.draw(st.integers(1, 4)),
            data.draw(st.integers(1, 3)),
            data.draw(st.integers(1, 9)),
            drop_last,
        )
        for size in sizes
    ]
    for part in record(segments, seed=seed):
        check(*part)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three datasets without a token in common."""
    root = tmp_path_factory.mktemp("three")
    sizes = {"a": 150, "b": 60, "c": 25}
    return {
        name: tokenmill.open(numbered(root / name, size, first=1000 * nth)).rows(LENGTH)
        for nth, (name, size) in enumerate(sizes.items())
    }


@given(data=st.data())
def test_every_row_of_a_mixture_with_stages(three, data):
    weights = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1)
    stages, step = [(0, data.draw(weights))], 0
    for _ in range(data.draw(st.integers(0, 2))):
        step += data.draw(st.integers(1, 20))
        stages.append((step, data.draw(weights)))
    options = {
        "stages": stages,
        "steps": step + data.draw(st.integers(1, 40)),
        "seed": data.draw(st.integers(0, 3)),
    }
    mixture = tokenmill.Mixture(three, **options)
    segments = [
        (
            mixture,
            data.draw(st.integers(1, 4)),
            data.draw(st.integers(1, 3)),
            data.draw(st.integers(1, 9)),
            False,
        )
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    for part in record(segments):
        check(*part)


@pytest.mark.parametrize(
    "options", [{"packing": "bestfit"}, {"packing": "separate", "overlap": 1}, {"packing": "concat"}]
)
def test_views(tmp_path, options):
    shards = [[[1, 2, 3], [4, 5, 6, 7]], [[8, 9, 10, 11, 12, 13], [14]]]
    rows = tokenmill.open(write_documents(tmp_path / "data", shards)).rows(5, tail="pad", **options)
    history = History(rows.batches(1, shuffle=True, seed=3, world_size=2))
    for document in range(4):
        holders = [row for row in range(len(rows)) if document in rows.spans(row)[:, 0]]
        assert sorted(row.row for row in history.find([document])) == holders
    steps = -(-len(rows) // 2)
    ((_, seen, _),) = record([(rows, 2, 1, steps, False)], seed=3)
    everything = [(row.step, row.rank, row.place) for step in range(steps) for row in history.trace(step)]
    assert everything == [entry[:3] for entry in seen]
