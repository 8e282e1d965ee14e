"""Every row exactly once, whoever reads it, and a resumed run equals the uninterrupted one."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenmill
from small_datasets import numbered
from tokenmill.base.durable import canonical_json
from tokenmill.datasets.reader.feed import Feed
from tokenmill.datasets.reader.order import Order
from tokenmill.datasets.reader.schedule import NEVER, Schedule
from tokenmill.datasets.reader.shuffle import Permutation
from tokenmill.datasets.reader.stages import Stage, count_turns
from tokenmill.datasets.reader.turns import Turns
from tokenmill.errors import DatasetError

# Two thousand examples of the slow profile take minutes.
pytestmark = pytest.mark.timeout(1200)


class Counting:
    """Rows that are their own numbers."""

    keeps_order = False

    def __init__(self, length, name="counting"):
        self.length = length
        self.name = name

    def __len__(self):
        return self.length

    def gather(self, rows, epoch=0):
        return {"input_ids": rows}

    def identity(self):
        return {"name": self.name, "rows": self.length}

    def grew_from(self, identity):
        return identity.get("name") == self.name and identity["rows"] <= self.length


def read(feed, most=None):
    batches = []
    for batch in feed:
        batches.append(batch["input_ids"].tolist())
        if len(batches) == most:
            break
    return batches


@given(length=st.integers(1, 3000), seed=st.integers(0, 2**64 - 1))
def test_a_shuffle_is_a_permutation(length, seed):
    shuffle = Permutation(length, seed)
    rows = shuffle[np.arange(length)]
    assert np.array_equal(np.sort(rows), np.arange(length))
    assert [shuffle[i] for i in range(min(length, 20))] == rows[:20].tolist()


def test_a_shuffle_of_a_trillion_rows_costs_nothing():
    shuffle = Permutation(10**12, 7)
    rows = {shuffle[i] for i in range(1000)}
    assert len(rows) == 1000
    assert max(rows) < 10**12
    assert max(rows) > 10**11


def test_a_shuffle_leaves_no_trace_of_the_order():
    rows = Permutation(100_000, 1)[np.arange(100_000)]
    correlation = np.corrcoef(np.arange(100_000), rows)[0, 1]
    neighbours = np.abs(np.diff(rows)).mean() / 100_000
    assert abs(correlation) < 0.02
    assert abs(neighbours - 1 / 3) < 0.01
    assert np.mean(Permutation(100_000, 2)[np.arange(1000)] == rows[:1000]) < 0.01


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
@pytest.mark.parametrize("total", [0, 1, 7, 64, 101])
def test_every_row_exactly_once(total, world_size, workers):
    seen = []
    for rank in range(world_size):
        parts = [
            list(Turns(rank, world_size, worker, max(workers, 1)).batches(0, total, 3))
            for worker in range(max(workers, 1))
        ]
        seen += [position for part in parts for batch in part for position in batch.tolist()]
        assert sum(map(len, parts)) == Turns(rank, world_size).count(0, total, 3)
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
            Feed(Counting(total), batch_size, seed=seed, turns=Turns(r, world_size))
            for r in range(world_size)
        ]

    whole = [row for part in read(feeds(1, 1)[0]) for row in part]
    first = feeds(world, batch)
    steps = min(steps, *map(len, first))
    begun = [[row for part in (read(feed, steps) if steps else []) for row in part] for feed in first]
    states = [feed.state_dict() for feed in first]
    assert all(state == states[0] for state in states)
    done = states[0]["position"] if states[0]["epoch"] == 0 else total
    assert sorted(row for part in begun for row in part) == sorted(whole[:done])

    later = feeds(later_world, later_batch)
    for feed in later:
        feed.load_state_dict(states[0])
    if done < total:
        rest = [[row for part in read(feed) for row in part] for feed in later]
        # Every rank takes its turns in what an uninterrupted reader would have read next.
        assert rest == [whole[done + rank :: later_world] for rank in range(later_world)]


@given(total=st.integers(1, 60), more=st.integers(0, 60), steps=st.integers(0, 30))
def test_a_grown_dataset_goes_on_with_the_next_row(total, more, steps):
    feed = Feed(Counting(total), 2, seed=3)
    whole = [row for part in read(Feed(Counting(total), 2, seed=3)) for row in part]
    steps = min(steps, (total - 1) // 2)
    begun = [row for part in (read(feed, steps) if steps else []) for row in part]
    grown = Feed(Counting(total + more), 2, seed=3)
    grown.load_state_dict(feed.state_dict())
    rest = [row for part in read(grown) for row in part]
    assert begun + rest[: total - len(begun)] == whole
    assert sorted(begun + rest) == list(range(total + more))
    assert grown.epoch == 1
    assert sorted(row for part in read(grown) for row in part) == list(range(total + more))


@given(
    total=st.integers(1, 100), world=st.integers(1, 4), batch=st.integers(1, 5), prefetch=st.integers(0, 3)
)
def test_drop_last_gives_every_rank_the_same_steps(total, world, batch, prefetch):
    feeds = [
        Feed(Counting(total), batch, turns=Turns(r, world), drop_last=True, prefetch=prefetch)
        for r in range(world)
    ]
    counts = [read(feed) for feed in feeds]
    assert {len(part) for part in counts} == {total // (world * batch)}
    assert all(len(rows) == batch for part in counts for rows in part)


def test_prefetch_counts_what_was_handed_over_and_raises_what_went_wrong():
    feed = Feed(Counting(100), 5, prefetch=4)
    reading = iter(feed)
    next(reading)
    assert feed.state_dict()["position"] == 5
    reading.close()
    assert read(feed)[0] == [5, 6, 7, 8, 9]

    class Broken(Counting):
        def gather(self, rows, epoch=0):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        read(Feed(Broken(10), 2, prefetch=2))


def test_epochs_differ_and_come_again():
    feed = Feed(Counting(50), 5, seed=1)
    first, second = read(feed), read(feed)
    assert first != second
    assert read(Feed(Counting(50), 5, seed=1)) == first
    assert Order([50], seed=1, epoch=1).rows(np.arange(5)).tolist() == second[0]


def test_a_state_of_other_data_is_refused():
    state = Feed(Counting(50), 5, seed=1).state_dict()
    with pytest.raises(DatasetError, match=r"name is 'counting' in the state and 'other' here"):
        Feed(Counting(50, "other"), 5, seed=1).load_state_dict(state)
    with pytest.raises(DatasetError, match="seed 1, this reader has 2"):
        Feed(Counting(50), 5, seed=2).load_state_dict(state)
    with pytest.raises(DatasetError, match="version 9"):
        Feed(Counting(50), 5, seed=1).load_state_dict({**state, "version": 9})
    with pytest.raises(DatasetError, match="does not match its checksum"):
        Feed(Counting(50), 5, seed=1).load_state_dict({**state, "position": 9})


def old(state):
    """The same state as the first version had it."""
    return {key: value for key, value in state.items() if key != "checksum"} | {"version": 1}


def test_a_state_of_the_first_version_still_loads_and_is_checked():
    feed = Feed(Counting(50), 5, seed=1)
    next(iter(feed))
    state = json.loads(json.dumps(old(feed.state_dict())))
    again = Feed(Counting(50), 5, seed=1)
    again.load_state_dict(state)
    assert (again.position, again.order.ends) == (feed.position, feed.order.ends)
    for change, words in (
        ({"position": 99}, "at row 99 of 50"),
        ({"ends": [40]}, "of 40, but its data has 50"),
        ({"ends": [50, 50]}, "rising"),
        ({"ends": []}, "rising"),
        ({"position": True}, "position is True"),
        ({"epoch": -1}, "epoch is -1"),
        ({"source": None}, "source is None"),
        ({"checksum": "x"}, "it has the keys"),
    ):
        with pytest.raises(DatasetError, match=words):
            Feed(Counting(50), 5, seed=1).load_state_dict({**state, **change})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
def test_every_change_of_a_state_is_refused_with_our_error(data):
    feed = Feed(Counting(50), 5, seed=1)
    next(iter(feed))
    state = json.loads(json.dumps(feed.state_dict()))
    before = canonical_json(state)
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
        same = canonical_json(state) == before
    except TypeError:
        same = False
    if same:
        return
    with pytest.raises(DatasetError):
        Feed(Counting(50), 5, seed=1).load_state_dict(state)


@given(state=ANYTHING)
def test_anything_that_is_not_a_state_is_refused_with_our_error(state):
    with pytest.raises(DatasetError):
        Feed(Counting(50), 5, seed=1).load_state_dict(state)


@given(turns=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_a_mixture_is_exact_over_any_prefix(turns):
    turns = count_turns([Fraction(count) for count in turns])
    order, _ = Schedule([Stage(0, tuple(turns))]).locate(np.arange(2 * sum(turns)))
    for source, count in enumerate(turns):
        given_so_far = np.cumsum(order == source)
        due = np.arange(1, len(order) + 1) * count / sum(turns)
        assert np.abs(given_so_far - due).max() < 1


@st.composite
def staged(draw):
    sources = draw(st.integers(1, 4))
    found, row = [], 0
    for nth in range(draw(st.integers(1, 4))):
        weights = draw(st.lists(st.integers(0, 9), min_size=sources, max_size=sources).filter(any))
        change = draw(st.integers(0, 40)) if nth else 0
        found.append(Stage(row, tuple(count_turns([Fraction(weight) for weight in weights])), change))
        row += max(1, change + draw(st.integers(0, 300)))
    return found


def due(stages, rows, source):
    """The sum of a source's weights over the first so many rows: the area under them."""
    total, ends = Fraction(0), [stage.start for stage in stages[1:]] + [rows]
    for nth, (stage, end) in enumerate(zip(stages, ends, strict=True)):
        here = max(0, min(end, rows) - stage.start)
        rising = min(here, stage.change)
        if rising:
            old, new = stages[nth - 1].weight(source), stage.weight(source)
            total += old * rising + (new - old) * Fraction(rising * rising, 2 * stage.change)
        total += stage.weight(source) * (here - rising)
    return total


@given(stages=staged(), block=st.sampled_from([7, 64, 1 << 16]))
def test_stages_are_exact_over_any_prefix_and_can_be_undone(stages, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenmill.datasets.reader.schedule.BLOCK", block)
        schedule = Schedule(stages)
    rows = stages[-1].start + 150
    sources, turns = schedule.locate(np.arange(rows))
    for source in range(len(stages[0].turns)):
        mine = np.flatnonzero(sources == source)
        assert turns[mine].tolist() == list(range(len(mine)))  # none is lost and none comes twice
        assert schedule.find(source, np.arange(len(mine))).tolist() == mine.tolist()
        given_so_far = np.concatenate([[0], np.cumsum(sources == source)]).tolist()
        assert all(abs(given_so_far[n] - due(stages, n, source)) < 1 for n in range(rows + 1))
        assert schedule.count(rows)[source] == len(mine)
        if not stages[-1].turns[source] and len(mine) > due(stages, rows, source):
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
