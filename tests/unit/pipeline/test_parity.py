"""The comparison with Hugging Face before a job: its result, and what it caches."""

import json

import pytest

import tokenmill
from small_tokenizers import write_bpe
from tokenmill.pipeline import run
from tokenmill.tokenizer.parity import Verdict, check_parity, locate_memory
from tokenmill.tokenizer.tokenizer import Tokenizer

TEXTS = ["the other day", "안녕하세요 the mill", "x" * 50]


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 40))
    return path


@pytest.fixture
def bpe(tmp_path):
    return Tokenizer.load(write_bpe(tmp_path / "bpe"))


def prepare(corpus, bpe, output, **options):
    options = {"unit_bytes": 500, "report": False, "show_progress": False} | options
    return tokenmill.prepare(inputs=str(corpus), tokenizer=bpe, output=str(output), **options)


def ids_of(dataset):
    return [ids.tolist() for ids in dataset]


def counted(monkeypatch, verdict=None):
    """Counts the comparisons of a job; `verdict` stands in for their outcome."""
    calls = []

    def compare(tokenizer, texts, **options):
        calls.append(list(texts))
        return check_parity(tokenizer, texts, **options) if verdict is None else verdict(tokenizer)

    monkeypatch.setattr(run, "check_parity", compare)
    return calls


class Reversed(Tokenizer):
    """An engine that differs from native on every document."""

    def encode_batch(self, texts, **options):
        return super().encode_batch([text[::-1] for text in texts], **options)


def test_a_difference_is_found_before_the_first_unit(corpus, bpe, tmp_path, monkeypatch):
    other = Reversed(bpe.recipe, "fast")
    calls = counted(monkeypatch, lambda _: Verdict(other, 3, "document 0 of the sample"))
    dataset = prepare(corpus, bpe, tmp_path / "out", eos=False)
    # Every document of every shard has the ids of the other engine, so the wrong one wrote no receipt.
    assert ids_of(dataset) == [bpe.encode(text[::-1], special="text") for text in TEXTS] * 40
    assert len(calls) == 1
    assert len(dataset.manifest.shards) > 1


def test_the_same_comparison_is_made_once(corpus, bpe, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    first = prepare(corpus, bpe, tmp_path / "one").manifest.content_hash
    assert prepare(corpus, bpe, tmp_path / "two").manifest.content_hash == first
    assert len(calls) == 1
    corpus.write_text(json.dumps({"text": "another corpus"}) + "\n")
    prepare(corpus, bpe, tmp_path / "three")
    assert len(calls) == 2


def test_memory_depends_on_versions_documents_and_special_tokens(bpe, monkeypatch):
    known = locate_memory(bpe, TEXTS, "text")
    assert known == locate_memory(bpe, TEXTS, "text")
    others = [(TEXTS, "parse"), (TEXTS[:2], "text"), (["".join(TEXTS)], "text")]
    assert known not in [locate_memory(bpe, *other) for other in others]
    monkeypatch.setattr("tokenmill.tokenizer.parity._identify", lambda module: "another")
    assert known != locate_memory(bpe, TEXTS, "text")
