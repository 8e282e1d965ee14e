"""A dataset's tokenizer is the one it was made with, or missing; never silently another one."""

import shutil

import pytest

import tokenmill
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.remote import COPY
from tokenmill.errors import DatasetError
from tokenmill.report.dataset import collect_dataset
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer, load_dataset_tokenizer
from tokenmill.report.documents import describe_document

TEXTS = ["one text of words", "another text, of other words"]


def train(path, texts):
    tokenmill.train_from_iterator(texts * 10, vocab_size=270, special_tokens=["<|endoftext|>"]).save(path)


@pytest.fixture
def made(tmp_path):
    """A dataset without a copy of its tokenizer, as older ones are, and the directory that it names."""
    train(tmp_path / "tok", TEXTS)
    tokenmill.prepare(
        dataset=TEXTS, tokenizer=str(tmp_path / "tok"), output=str(tmp_path / "out"), verbose_level="ERROR"
    )
    shutil.rmtree(tmp_path / "out" / COPY)
    return tmp_path


def test_another_tokenizer_in_its_place_is_never_used(made):
    train(made / "tok", ["nothing in common 12345"])
    manifest = load_manifest(made / "out")
    with pytest.raises(DatasetError, match="gives different ids from the one the dataset was made with"):
        load_dataset_tokenizer(made / "out", manifest)
    assert find_dataset_tokenizer(made / "out", manifest) is None
    found = describe_document(made / "out", 1)
    assert found["text"] is None
    assert "different ids" in found["why_no_text"]
    assert describe_document(made / "out", 0)["parts"][0]["text"].replace(" ", "").isdigit()
    assert collect_dataset(made / "out")["scripts"] == []
    with pytest.raises(DatasetError, match="this tokenizer gives different ids"):
        load_dataset_tokenizer(made / "out", manifest, tokenmill.Tokenizer.load(made / "tok"))


def test_a_pattern_that_the_file_does_not_carry_is_the_manifests(made):
    tokenmill.Tokenizer.load(made / "tok").save(made / "tok.tiktoken", "tiktoken")
    tokenmill.prepare(
        dataset=TEXTS,
        tokenizer=str(made / "tok.tiktoken"),
        pattern="gpt2",
        output=str(made / "plain"),
        verbose_level="ERROR",
        report=False,
    )
    assert describe_document(made / "plain", 0)["text"] == TEXTS[0]
    (made / "tok.tiktoken").unlink()
    assert describe_document(made / "plain", 0)["text"] == TEXTS[0]
