"""Mixtures: the proportions hold over any prefix, and each source gives each of its rows in turn."""

import json
from fractions import Fraction

import numpy as np
import pytest

import tokenmill
from small_datasets import numbered
from tokenmill import Mixture
from tokenmill.cli import main
from tokenmill.datasets.mixture import NEAREST_PERIOD, Schedule, Stage, count_turns
from tokenmill.errors import ConfigError, DatasetError


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
    assert mixture.gather(np.array([0]))["input_ids"].tolist() == [sources[int(chosen[0])][0].tolist()]


def test_a_source_repeats_in_another_order(sources):
    mixture = Mixture(sources, [1, 1, 1], seed=5, steps=90)
    chosen, rows = mixture.locate(np.arange(len(mixture)))
    small = rows[chosen == 2]
    assert sorted(rows[chosen == 0].tolist()) == list(range(30))
    passes = [small[i : i + 4].tolist() for i in range(0, 28, 4)]
    assert all(sorted(part) == [0, 1, 2, 3] for part in passes)
    assert len({tuple(part) for part in passes}) > 1


def test_a_batch_of_different_views_has_the_sequences_of_each_row(tmp_path):
    options = {"columns": ["position_ids", "cu_seqlens"], "pad_id": 0}
    web, code = (tokenmill.open(numbered(tmp_path / name, 210)) for name in ("web", "code"))
    sources = [web.rows(10, **options), code.rows(10, packing="bestfit", **options)]
    batch = Mixture(sources, [1, 1]).gather(np.arange(6))
    chosen, rows = Mixture(sources, [1, 1]).locate(np.arange(6))
    assert set(chosen.tolist()) == {0, 1}
    starts = []
    for place, (source, row) in enumerate(zip(chosen.tolist(), rows.tolist(), strict=True)):
        alone = sources[source].gather(np.array([row]))
        np.testing.assert_array_equal(batch["position_ids"][place], alone["position_ids"][0])
        starts += (alone["cu_seqlens"][:-1] + 10 * place).tolist()
    assert batch["cu_seqlens"].tolist() == [*starts, 60]
    assert batch["max_seqlen"] == max(np.diff(batch["cu_seqlens"]))


def test_weights_without_a_small_denominator():
    turns = count_turns([0.123456789, 3.14159265, 1e-9])
    assert abs(sum(turns) - NEAREST_PERIOD) <= 2
    assert min(turns) == 1
    assert count_turns([0.12345, 0.5, 0.37655]) == (2469, 10000, 7531)  # decimals are kept exactly
    assert Schedule([Stage(0, turns)]).count(sum(turns)) == list(turns)


def test_a_weight_of_zero_is_no_source(sources):
    mixture = Mixture(sources, [1, 0, 1])
    assert mixture.gather(np.arange(4))["source_ids"].tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, -0.5, 1], "weights.1 is -0.5"),
        ([0, 0, 0], "all weights are 0"),
        ([1, 1], "weights is .*, expected 3 values"),
        ([float("nan"), 1, 1], "weights.0 is NaN"),
        ([float("inf"), 1, 1], "weights.0 is Infinity"),
    ],
)
def test_bad_weights(sources, weights, said):
    with pytest.raises(ConfigError, match=said):
        Mixture(sources, weights)


STAGES = [(0, {"a": 1}), (20, {"a": 1, "b": 1}), (40, {"b": 3, "c": 1})]


@pytest.fixture
def named(sources):
    return dict(zip("abc", sources, strict=True))


def test_the_account_says_what_each_source_gives(named):
    account = Mixture(named, stages=STAGES, steps=60, seed=3).account()
    assert (account["rows"], account["tokens"]) == (60, 600)
    assert [stage["rows"] for stage in account["stages"]] == [20, 20, 20]
    given = {each["name"]: each for each in account["sources"]}
    assert sum(each["tokens"] for each in given.values()) == 600
    assert given["c"]["epochs"] == 5 / 4
    assert [stage["sources"]["b"]["tokens"] for stage in account["stages"]] == [0, 100, 150]


def test_steps_are_counted_in_rows_of_all_ranks(named):
    mixture = Mixture(named, stages=[(0, {"a": 1}), (5, {"b": 1})], rows_per_step=4, steps=6)
    chosen, _ = mixture.locate(np.arange(24))
    assert chosen.tolist() == [0] * 20 + [1] * 4


def test_epochs_end_a_mixture_or_refuse_it(named):
    assert len(Mixture(named, {"a": 1, "c": 1}, epochs={"c": 2})) == 17
    with pytest.raises(
        ConfigError,
        match=r"c would be read 2.50 times in 20 steps, and reaches its epochs at step 17",
    ):
        Mixture(named, {"a": 1, "c": 1}, steps=20, epochs={"c": 2})


def test_a_state_of_other_stages_is_refused(named):
    state = Mixture(named, stages=STAGES, steps=60).batches(2).state_dict()
    other = Mixture(named, stages=[*STAGES[:2], (41, {"b": 3, "c": 1})], steps=60).batches(2)
    with pytest.raises(DatasetError, match="stages is"):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([], "stages must begin at step 0"),
        ([(5, {"a": 1})], "stages must begin at step 0"),
        ([(0, {"a": 1}), (9, {"b": 1}), (4, {"a": 1})], "later and later steps"),
        ([{"from": 0, "to": 7, "weights": {"a": 1}}], r"stages\[0\] is .*to"),
        ([(0, {"x": 1})], r"stages\[0\]\[1\] is .*, expected the sources a, b, c, without 'x'"),
        ([(0, {"a": "much"})], r"stages\[0\]\[1\].a is \"much\""),
        ([(0,)], r"stages\[0\]\[1\] is missing"),
        ([{"from": 0.5, "weights": {"a": 1}}], r"stages\[0\]\[0\] is 0.5"),
    ],
)
def test_bad_stages(named, stages, said):
    with pytest.raises(ConfigError, match=said):
        Mixture(named, stages=stages, steps=20)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give one of the two"),
        ({"weights": {"a": 1}, "stages": STAGES}, "give one of the two"),
        ({"weights": {"a": 1}, "steps": 0}, "steps is 0"),
        ({"weights": {"a": 1}, "rows_per_step": 0}, "rows_per_step is 0"),
        ({"weights": {"a": 1}, "epochs": {"x": 1}}, "epochs is .*, without 'x'"),
        ({"weights": {"a": 1}, "epochs": 0}, "epochs.a is 0"),
    ],
)
def test_bad_mixtures(named, options, said):
    with pytest.raises(ConfigError, match=said):
        Mixture(named, **options)


YAML = """
sources: {web: WEB, code: CODE}
context_length: 10
seed: 3
rows_per_step: 2
steps: 12
stages:
  - {from: 0, weights: {web: 1}}
  - {from: 6, weights: {web: 0.5, code: 0.5}}
"""


def test_from_a_file(tmp_path, capsys):
    for name, count in (("web", 300), ("code", 40)):
        numbered(tmp_path / name, count)
    file = tmp_path / "mixture.yaml"
    text = YAML.replace("WEB", str(tmp_path / "web")).replace("CODE", str(tmp_path / "code"))
    file.write_text(text)
    mixture = Mixture.load(file)
    assert mixture.names == ["web", "code"]
    assert len(mixture) == 24
    main(["plan", str(file)])
    said = capsys.readouterr().out
    assert "12 steps, 24 rows, 240 tokens" in said
    assert "stage 1: from step 6, 12 rows" in said
    assert "code: 60 tokens, read 1.500 times" in said
    main(["plan", str(file), "--json"])
    assert json.loads(capsys.readouterr().out) == mixture.account()
    for old, new, words in (
        ("seed: 3", "sead: 3", "mixture.yaml:4: .*sead"),
        ("seed: 3", "seed: x", 'seed is "x"'),
        ("code: 0.5", "coda: 0.5", r"mixture.yaml: stages\[1\]\[1\] is .*, without 'coda'"),
        ("sources: {", "sources: [", "not valid YAML"),
    ):
        file.write_text(text.replace(old, new))
        with pytest.raises(ConfigError, match=words):
            Mixture.load(file)
    file.write_text("seed: 3")
    with pytest.raises(ConfigError, match="sources is missing"):
        Mixture.load(file)


def test_sources_must_fit(sources, tmp_path):
    other = tokenmill.open(numbered(tmp_path / "other", 100)).rows(20)
    with pytest.raises(ConfigError, match=r"\[10, 20\]"):
        Mixture([sources[0], other], [1, 1])
