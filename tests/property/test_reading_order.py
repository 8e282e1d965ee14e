"""Every row exactly once for any ranks and workers, and a resumed run equals the uninterrupted one."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenmill
from small_datasets import numbered
from tokenmill.base.durable import digest
from tokenmill.datasets.feed import Feed
from tokenmill.datasets.mixture import Schedule, Stage, count_turns
from tokenmill.datasets.order import NEVER, Order, Permutation
from tokenmill.errors import DatasetError

# Two thousand examples of the slow profile take minutes.
pytestmark = pytest.mark.timeout(1200)


class Counting:
    """Rows that are their own numbers, of data that may grow."""

    def __init__(self, length, name="counting"):
        self.length = length
        self.name = name

    def __len__(self):
        return self.length

    def gather(self, rows, epoch=0):
        return {"input_ids": rows}

    def identity(self):
        return {"name": self.name, "rows": self.length}

    def extends(self, identity):
        return identity["name"] == self.name and identity["rows"] <= self.length


def make_feed(source, batch_size, seed=None, **options):
    return Feed(source, Order([len(source)], seed=seed), batch_size, **options)


def read(feed, most=None):
    batches = []
    for batch in feed:
        batches.append(batch["input_ids"].tolist())
        if len(batches) == most:
            break
    return batches


def flat(batches):
    return [row for batch in batches for row in batch]


@given(length=st.integers(1, 3000), seed=st.integers(0, 2**64 - 1))
def test_a_shuffle_is_a_permutation(length, seed):
    shuffle, everything = Permutation(length, seed), np.arange(length)
    rows = shuffle(everything)
    assert np.array_equal(np.sort(rows), everything)
    assert shuffle(everything[:9]).tolist() == rows[:9].tolist()  # few positions are computed apart
    assert np.array_equal(shuffle.invert(rows), everything)
    assert shuffle.invert(rows[:9]).tolist() == everything[:9].tolist()


def test_a_shuffle_leaves_no_trace_of_the_order():
    everything = np.arange(100_000)
    rows = Permutation(100_000, 1)(everything)
    assert abs(np.corrcoef(everything, rows)[0, 1]) < 0.02
    assert abs(np.abs(np.diff(rows)).mean() / 100_000 - 1 / 3) < 0.01
    assert np.mean(Permutation(100_000, 2)(everything[:1000]) == rows[:1000]) < 0.01
    assert 10**11 < Permutation(10**12, 7)(everything[:1000]).max() < 10**12


@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
@pytest.mark.parametrize("total", [1, 7, 64, 101])
def test_every_row_exactly_once(total, world_size):
    seen = []
    for rank in range(world_size):
        feed = make_feed(Counting(total), 3, rank=rank, world_size=world_size)
        batches, count = read(feed), len(feed)
        seen += flat(batches)
        assert len(batches) == count
    assert sorted(seen) == list(range(total))


@given(
    total=st.integers(1, 200),
    world=st.integers(1, 5),
    later_world=st.integers(1, 5),
    batch=st.integers(1, 7),
    later_batch=st.integers(1, 7),
    steps=st.integers(0, 40),
    shuffle=st.booleans(),
)
def test_resume_with_another_world_reads_what_is_left(
    total, world, later_world, batch, later_batch, steps, shuffle
):
    def feeds(world_size, batch_size):
        seed = 11 if shuffle else None
        return [
            make_feed(Counting(total), batch_size, seed=seed, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]

    whole = flat(read(feeds(1, 1)[0]))
    first = feeds(world, batch)
    steps = min(steps, *map(len, first))
    begun = [flat(read(feed, steps) if steps else []) for feed in first]
    states = [feed.state_dict() for feed in first]
    assert all(state == states[0] for state in states)
    done = states[0]["position"] if states[0]["epoch"] == 0 else total
    assert sorted(flat(begun)) == sorted(whole[:done])

    later = feeds(later_world, later_batch)
    for feed in later:
        feed.load_state_dict(states[0])
    if done < total:
        # Every rank takes its turns in what an uninterrupted reader would have read next.
        assert [flat(read(feed)) for feed in later] == [
            whole[done + rank :: later_world] for rank in range(later_world)
        ]


@given(total=st.integers(1, 60), more=st.integers(0, 60), steps=st.integers(0, 30))
def test_a_grown_dataset_goes_on_with_the_next_row(total, more, steps):
    feed = make_feed(Counting(total), 2, seed=3)
    whole = flat(read(make_feed(Counting(total), 2, seed=3)))
    steps = min(steps, (total - 1) // 2)
    begun = flat(read(feed, steps) if steps else [])
    grown = make_feed(Counting(total + more), 2, seed=3)
    grown.load_state_dict(feed.state_dict())
    rest = flat(read(grown))
    assert begun + rest[: total - len(begun)] == whole
    assert sorted(begun + rest) == list(range(total + more))
    assert grown.epoch == 1
    assert sorted(flat(read(grown))) == list(range(total + more))


@given(
    total=st.integers(1, 100), world=st.integers(1, 4), batch=st.integers(1, 5), prefetch=st.integers(0, 3)
)
def test_drop_last_gives_every_rank_the_same_steps(total, world, batch, prefetch):
    options = {"world_size": world, "drop_last": True, "prefetch": prefetch}
    counts = [read(make_feed(Counting(total), batch, rank=rank, **options)) for rank in range(world)]
    assert {len(part) for part in counts} == {total // (world * batch)}
    assert all(len(rows) == batch for part in counts for rows in part)


def test_prefetch_counts_what_was_handed_over_and_raises_what_went_wrong():
    feed = make_feed(Counting(100), 5, prefetch=4)
    reading = iter(feed)
    next(reading)
    assert feed.state_dict()["position"] == 5
    reading.close()
    assert read(feed)[0] == [5, 6, 7, 8, 9]

    class Broken(Counting):
        def gather(self, rows, epoch=0):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        read(make_feed(Broken(10), 2, prefetch=2))


def test_epochs_differ_and_come_again():
    feed = make_feed(Counting(50), 5, seed=1)
    first, second = read(feed), read(feed)
    assert first != second
    assert read(make_feed(Counting(50), 5, seed=1)) == first
    assert Order([50], seed=1, epoch=1).rows(np.arange(5)).tolist() == second[0]


def test_a_state_of_other_data_is_refused():
    state = make_feed(Counting(50), 5, seed=1).state_dict()
    with pytest.raises(DatasetError, match=r"name is 'counting' in the state and 'other' here"):
        make_feed(Counting(50, "other"), 5, seed=1).load_state_dict(state)
    with pytest.raises(DatasetError, match="seed 1, this reader has 2"):
        make_feed(Counting(50), 5, seed=2).load_state_dict(state)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_every_change_of_a_state_is_refused_with_our_error(data):
    feed = make_feed(Counting(50), 5, seed=1)
    next(iter(feed))
    state = json.loads(json.dumps(feed.state_dict()))
    before = digest(state)
    place, kind = state, data.draw(st.sampled_from(["value", "key", "drop"]))
    key = data.draw(st.sampled_from(sorted(state)))
    if key == "source" and data.draw(st.booleans()):
        place, key = state["source"], data.draw(st.sampled_from(sorted(state["source"])))
    value = place.pop(key)
    if kind == "value":
        near = (
            st.just(value + 1)
            if isinstance(value, int)
            else st.just([*value, 60])
            if key == "ends"
            else ANYTHING
        )
        place[key] = data.draw(ANYTHING | near)
    elif kind == "key":
        place[data.draw(st.text(max_size=8))] = value
    try:
        same = digest(state) == before
    except TypeError:
        same = False
    if same:
        return
    with pytest.raises(DatasetError):
        make_feed(Counting(50), 5, seed=1).load_state_dict(state)


@given(state=ANYTHING)
def test_anything_that_is_not_a_state_is_refused_with_our_error(state):
    with pytest.raises(DatasetError):
        make_feed(Counting(50), 5, seed=1).load_state_dict(state)


@st.composite
def staged(draw):
    sources = draw(st.integers(1, 4))
    found, row = [], 0
    for _ in range(draw(st.integers(1, 4))):
        weights = draw(st.lists(st.integers(0, 9), min_size=sources, max_size=sources).filter(any))
        found.append(Stage(row, count_turns([Fraction(weight) for weight in weights])))
        row += draw(st.integers(1, 300))
    return found


@given(stages=staged())
def test_stages_are_exact_over_any_prefix_and_can_be_inverted(stages):
    schedule = Schedule(stages)
    rows = stages[-1].start + 150
    sources, turns = schedule.locate(np.arange(rows))
    bounds = [stage.start for stage in stages[1:]] + [rows]
    for source in range(len(stages[0].turns)):
        mine = np.flatnonzero(sources == source)
        assert turns[mine].tolist() == list(range(len(mine)))  # none is lost and none comes twice
        assert schedule.find(source, np.arange(len(mine))).tolist() == mine.tolist()
        assert schedule.count(rows)[source] == len(mine)
        for stage, end in zip(stages, bounds, strict=True):
            given_so_far = np.cumsum(sources[stage.start : end] == source)
            due = np.arange(1, end - stage.start + 1) * float(stage.weight(source))
            assert np.abs(given_so_far - due).max() < 1
        if not stages[-1].turns[source]:
            assert schedule.find(source, np.array([len(mine)])).tolist() == [NEVER]


@given(
    tokens=st.integers(20, 300),
    shards=st.integers(1, 9),
    context=st.integers(1, 20),
    overlap=st.integers(0, 19),
    document=st.integers(1, 30),
)
def test_rows_are_cut_across_shards(tmp_path_factory, tokens, shards, context, overlap, document):
    overlap = min(overlap, context - 1)
    root = tmp_path_factory.mktemp("cut") / "data"
    rows = tokenmill.open(numbered(root, tokens, shards=shards, document=document)).rows(
        context, overlap, columns=("position_ids", "document_ids")
    )
    stride = context - overlap
    starts = list(range(0, tokens - context + 1, stride))
    assert [row.tolist() for row in rows] == [list(range(s, s + context)) for s in starts]
    batch = rows.gather(np.arange(len(rows)))
    owner = np.concatenate([np.full(len(d), n) for n, d in enumerate(rows.dataset)])
    for row, start in enumerate(starts):
        mine = owner[start : start + context]
        assert batch["document_ids"][row].tolist() == mine.tolist()
        fresh = np.concatenate([[True], mine[1:] != mine[:-1]])
        since = np.arange(context) - np.maximum.accumulate(np.where(fresh, np.arange(context), 0))
        assert batch["position_ids"][row].tolist() == since.tolist()
