"""Vocabulary sizes from counts: every size is a prefix of one training, and each figure is exact."""

import json
import random

import pytest
from click.testing import CliRunner

import tokenmill
from mill_words import ENGLISH, KOREAN
from tokenmill.cli.tokenizer import sizes as command
from tokenmill.errors import ConfigError
from tokenmill.report.sizes import measure_sizes


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    root = tmp_path_factory.mktemp("sizes")
    rng = random.Random(3)
    made = {}
    for name, words in (("en", ENGLISH), ("ko", KOREAN)):
        texts = [" ".join(rng.choices(words, k=20)) for _ in range(100)]
        tokenmill.train_from_iterator(
            texts, 257, save_counts=root / f"{name}.parquet", special_tokens=["<|eos|>"]
        )
        made[name] = texts
    return root, made


def test_each_size_is_what_training_to_it_gives(counted):
    root, texts = counted
    files = [str(root / "en.parquet"), str(root / "ko.parquet")]
    result = measure_sizes(files, [300, 280, 320])
    assert [row["size"] for row in result["sizes"]] == [280, 300, 320]
    for row in result["sizes"]:
        trained = tokenmill.train(counts=files, vocab_size=row["size"], special_tokens=["<|eos|>"])
        for name, documents in texts.items():
            tokens = sum(len(trained.encode(text)) for text in documents)
            size = sum(len(text.encode()) for text in documents)
            assert row["corpora"][name] == pytest.approx(size / tokens)


def test_tokens_of_two_splits_are_measured_by_encoding(counted):
    root, _ = counted
    # Pieces in which the same bytes come into being by two merges.
    texts = ["abcabc" * 3, "bcbc", "abab", "aabcc abcab"] * 30
    tokenmill.train_from_iterator(texts, 257, save_counts=root / "twice.parquet")
    sizes = [260, 263, 266]
    result = measure_sizes([str(root / "twice.parquet")], sizes)
    for row in result["sizes"]:
        trained = tokenmill.train(counts=[str(root / "twice.parquet")], vocab_size=row["size"])
        tokens = sum(len(trained.encode(text)) for text in texts)
        assert row["bytes_per_token"] == pytest.approx(sum(map(len, texts)) / tokens)


def test_a_table_and_json(counted):
    root, _ = counted
    done = CliRunner().invoke(command, [str(root / "en.parquet"), "--sizes", "many", "--json"])
    assert done.exit_code == 2
    done = CliRunner().invoke(command, [str(root / "en.parquet"), "--sizes", "280,300", "--json"])
    assert [row["size"] for row in json.loads(done.output)["sizes"]] == [280, 300]


def test_a_model_adds_its_cost(counted):
    root, _ = counted
    shape = str(__import__("pathlib").Path(__file__).parents[2] / "examples" / "gpt2-xl.json")
    done = CliRunner().invoke(command, [str(root / "en.parquet"), "--sizes", "280,300", "--model", shape])
    assert "flops per byte" in done.output


def test_sizes_that_cannot_be(counted):
    root, _ = counted
    with pytest.raises(ConfigError, match="above 256"):
        measure_sizes([str(root / "en.parquet")], [100])
    with pytest.raises(ConfigError, match="at most"):
        measure_sizes([str(root / "en.parquet")], [100_000])


def test_a_ladder_writes_the_smaller_vocabularies_too(counted, tmp_path):
    root, _ = counted
    files = [str(root / "en.parquet")]
    tokenmill.train(
        counts=files, vocab_size=300, special_tokens=["<|eos|>"], output=tmp_path / "a", ladder="270,280"
    )
    for size in (270, 280):
        alone = tokenmill.train(counts=files, vocab_size=size, special_tokens=["<|eos|>"])
        assert tokenmill.Tokenizer.load(tmp_path / "a" / str(size)).fingerprint == alone.fingerprint
    with pytest.raises(ConfigError, match="ladder"):
        tokenmill.train(counts=files, vocab_size=300, output=tmp_path / "b", ladder="400")
    assert not (tmp_path / "b").exists()


def test_sizes_of_an_extension(counted, tmp_path):
    root, texts = counted
    base = tokenmill.train_from_iterator(
        texts["en"], 290, special_tokens=["<|eos|>"], output=tmp_path / "base"
    )
    result = measure_sizes([str(root / "ko.parquet")], [300, 320], base=base)
    for row in result["sizes"]:
        longer = tokenmill.extend(base, iter(texts["ko"]), add=row["size"] - 290, min_frequency=1)
        tokens = sum(len(longer.encode(text)) for text in texts["ko"])
        size = sum(len(text.encode()) for text in texts["ko"])
        assert row["corpora"]["ko"] == pytest.approx(size / tokens)
    with pytest.raises(ConfigError, match="larger sizes"):
        measure_sizes([str(root / "ko.parquet")], [270], base=base)
