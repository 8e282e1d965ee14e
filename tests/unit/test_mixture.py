"""Mixtures: the proportions hold over any prefix, and each source gives each of its rows in turn."""

from fractions import Fraction

import numpy as np
import pytest

import tokenmill
from small_datasets import numbered
from tokenmill import Mixture
from tokenmill.base.errors import ConfigError
from tokenmill.datasets.reader.mixture import NEAREST_PERIOD, period, schedule


@pytest.fixture
def sources(tmp_path):
    return [tokenmill.open(numbered(tmp_path / str(n), 10 * n)).rows(10) for n in (30, 20, 4)]


def test_rows_come_from_the_sources_in_proportion(sources):
    mixture = Mixture(sources, [0.5, 0.4, 0.1])
    chosen, rows = mixture.locate(np.arange(len(mixture)))
    assert mixture.weights == [Fraction(1, 2), Fraction(2, 5), Fraction(1, 10)]
    assert len(mixture) >= 40
    for source in range(3):
        mine = rows[chosen == source]
        assert mine.tolist() == list(range(len(mine)))
    assert mixture[0].tolist() == sources[int(chosen[0])][0].tolist()


def test_the_last_source_decides_and_others_repeat_in_another_order(sources):
    mixture = Mixture(sources, [1, 1, 1], seed=5, stop="last")
    chosen, rows = mixture.locate(np.arange(len(mixture)))
    small = rows[chosen == 2]
    assert len(rows[chosen == 0]) == 30
    assert sorted(rows[chosen == 0].tolist()) == list(range(30))
    passes = [small[i : i + 4].tolist() for i in range(0, 28, 4)]
    assert all(sorted(part) == [0, 1, 2, 3] for part in passes)
    assert len({tuple(part) for part in passes}) > 1


def test_batches_resume(sources):
    mixture = Mixture(sources, [3, 2, 1], seed=1)
    whole = [batch["input_ids"].tolist() for batch in mixture.batches(4)]
    feed = mixture.batches(4)
    reading = iter(feed)
    begun = [next(reading)["input_ids"].tolist() for _ in range(3)]
    again = Mixture(sources, [3, 2, 1], seed=1).batches(4)
    again.load_state_dict(feed.state_dict())
    assert begun + [batch["input_ids"].tolist() for batch in again] == whole


def test_weights_without_a_small_denominator():
    turns = period([Fraction(0.123456789), Fraction(3.14159265), Fraction(1e-9)])
    assert sum(turns) == NEAREST_PERIOD
    assert min(turns) == 1
    assert len(schedule(turns)) == NEAREST_PERIOD


def test_decimals_are_kept_exactly():
    assert period([Fraction(0.12345), Fraction(0.5), Fraction(0.37655)]) == [2469, 10000, 7531]


def test_a_weight_of_zero_is_no_source(sources):
    mixture = Mixture(sources, [1, 0, 1])
    assert mixture.sources == [sources[0], sources[2]]
    assert mixture.gather(np.arange(4))["source"].tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, -0.5, 1], "weight 1 is -0.5"),
        ([0, 0, 0], "all weights are 0"),
        ([1, 1], "3 sources has 2 weights"),
        ([float("nan"), 1, 1], "weight 0 is nan"),
        ([float("inf"), 1, 1], "weight 0 is inf"),
    ],
)
def test_bad_weights(sources, weights, said):
    with pytest.raises(ConfigError, match=said):
        Mixture(sources, weights)


def test_sources_must_fit(sources, tmp_path):
    other = tokenmill.open(numbered(tmp_path / "other", 100)).rows(20)
    with pytest.raises(ConfigError, match=r"\[10, 20\]"):
        Mixture([sources[0], other], [1, 1])
