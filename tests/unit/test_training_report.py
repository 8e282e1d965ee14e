"""The report of a training: its curve and its rare tokens are what encoding the training text gives."""

import json
import random
from collections import Counter

import pytest

import tokenmill
from mill_words import ENGLISH, KOREAN
from tokenmill.errors import ConfigError


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("training"), random.Random(3)
    texts = [" ".join(rng.choices(ENGLISH + KOREAN, k=20)) for _ in range(200)]
    tokenmill.train_from_iterator(
        texts,
        330,
        special_tokens=["<|eos|>"],
        ladder="270,300",
        output=root / "tok",
        save_counts=root / "counts.parquet",
        progress=False,
    )
    return root, texts, json.loads((root / "tok" / "report.json").read_text(encoding="utf-8"))


def test_every_size_of_the_ladder_is_what_training_to_it_gives(trained, tmp_path):
    root, _, _ = trained
    counts = [str(root / "counts.parquet")]
    for size in (270, 300):
        alone = tokenmill.train(counts=counts, vocab_size=size, special_tokens=["<|eos|>"])
        assert tokenmill.Tokenizer.load(root / "tok" / str(size)).fingerprint == alone.fingerprint
    with pytest.raises(ConfigError, match="ladder"):
        tokenmill.train(counts=counts, vocab_size=300, output=tmp_path / "b", ladder="400")
    assert not (tmp_path / "b").exists()


def test_the_curve_is_bytes_per_token_of_the_training_text(trained):
    root, texts, data = trained
    curve = dict(map(tuple, data["figures"]["report"]["curve"]))
    size = sum(len(text.encode()) for text in texts)
    checked = 0
    for folder, length in (("tok/270", 270), ("tok/300", 300), ("tok", 330)):
        tokenizer = tokenmill.Tokenizer.load(root / folder)
        if length in curve:
            tokens = sum(len(tokenizer.encode(text)) for text in texts)
            assert curve[length] == pytest.approx(size / tokens, abs=1e-4)
            checked += 1
    assert checked >= 2


def test_rare_tokens_are_counted_in_the_training_text(trained):
    root, texts, data = trained
    tokenizer, own = tokenmill.Tokenizer.load(root / "tok"), data["figures"]["report"]
    counts = Counter(id_ for text in texts for id_ in tokenizer.encode(text))
    rare = {id_: counts[id_] for id_ in range(257, tokenizer.vocab_size) if counts[id_] < 10}
    assert own["rare"] == len(rare)
    assert {row["id"]: row["count"] for row in own["rare_tokens"]} == rare
    for row in own["rare_tokens"]:
        assert row["token"] == tokenizer.token_bytes(row["id"]).decode("utf-8", "backslashreplace")


def test_the_sample_is_measured_by_script(trained):
    root, _, data = trained
    sample = data["figures"]["report"]["sample"]
    assert {row["script"] for row in sample["scripts"]} >= {"Hangul", "Latin"}
    assert sum(row["bytes"] for row in sample["scripts"]) == sample["bytes"]
    html = (root / "tok" / "report.html").read_text(encoding="utf-8")
    for title in ("What each size gains", "Rare tokens", "Unreachable tokens", "Tokens by length"):
        assert title in html
