"""The local order: each pass of a lane reads its rows once, any position can be computed, and back."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.datasets.order import LocalOrder


class Layout:
    """The rows of each shard, and the shards that were announced before they are read."""

    endless = False

    def __init__(self, counts):
        self.counts = counts
        self.rows = sum(counts)
        self.row_starts = np.cumsum([0, *counts])
        self.shards = self
        self.expected = set()

    def count(self, shard):
        return self.counts[shard]

    def expect(self, lane, shards):
        self.expected.update(shards)


@st.composite
def orders(draw):
    counts = draw(st.lists(st.integers(1, 40), min_size=1, max_size=20))
    seed = draw(st.none() | st.integers(0, 9))
    local = draw(st.integers(1, 6)), draw(st.integers(1, 5))

    def make(epoch=0):
        return LocalOrder(Layout(counts), seed=seed, local=local, epoch=epoch)

    return counts, make


@given(orders())
def test_each_pass_of_a_lane_reads_each_of_its_rows_once(given_order):
    counts, make = given_order
    order, total = make(), sum(counts)
    rows = order.rows(np.arange(3 * total * order.lanes))
    seen = []
    for lane in range(order.lanes):
        mine = rows[lane :: order.lanes]
        size = sum(counts[shard] for shard in range(len(counts)) if set(mine) & set(_rows_of(counts, shard)))
        first, second = mine[:size].tolist(), mine[size : 2 * size].tolist()
        assert sorted(first) == sorted(second)
        assert len(set(first)) == size
        seen += first
    assert sorted(seen) == list(range(total))
    assert order.layout.expected == set(range(len(counts)))


def _rows_of(counts, shard):
    start = sum(counts[:shard])
    return range(start, start + counts[shard])


@given(orders(), st.data())
def test_any_position_and_its_inverse(given_order, data):
    counts, make = given_order
    total = sum(counts)
    epoch = data.draw(st.integers(0, 2))
    whole = make().rows(np.arange(3 * total))[epoch * total : (epoch + 1) * total]
    positions = np.array(data.draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=9)))
    assert make(epoch).rows(positions).tolist() == whole[positions].tolist()
    wanted = sorted(set(whole[positions].tolist()))
    expected = [place for place, row in enumerate(whole.tolist()) if row in wanted]
    assert make(epoch).invert(np.array(wanted)).tolist() == expected


def test_a_lane_mixes_the_rows_of_one_window_of_its_shards():
    counts = [100] * 24
    order = LocalOrder(Layout(counts), seed=3, local=(2, 4))
    shards = order.rows(np.arange(2400)) // 100
    for lane in range(2):
        mine = shards[lane::2]
        windows = [set(mine[start : start + 400].tolist()) for start in range(0, 1200, 400)]
        assert [len(window) for window in windows] == [4, 4, 4]
        assert set.union(*windows) == set(mine.tolist())
        assert mine[:400].tolist() != sorted(mine[:400].tolist())
