"""Native against Hugging Face on the user's documents: agreement, difference, nothing to compare with."""

import logging
import sys
from types import SimpleNamespace

import pytest

from small_tokenizers import write_bpe, write_word_piece
from tokenmill.tokenizer.parity import check_parity
from tokenmill.tokenizer.recipe import Recipe
from tokenmill.tokenizer.tokenizer import Tokenizer

# Of which no part can be taken.
WHOLE = Recipe("somewhere", "hf", None)


@pytest.fixture
def bpe(tmp_path):
    return Tokenizer.load(write_bpe(tmp_path / "bpe"))


@pytest.fixture
def said(caplog):
    logging.getLogger("tokenmill").propagate = True
    caplog.set_level(logging.INFO, "tokenmill")
    return caplog


def test_agreement_keeps_native(bpe, said):
    verdict = check_parity(bpe, ["the other", "안녕 <|endoftext|>"])
    assert verdict.tokenizer is bpe
    assert (verdict.documents, verdict.difference) == (2, None)
    assert "same ids on 2 of your documents" in said.text


def test_a_difference_falls_back_loudly(bpe, said):
    """A native engine that is wrong about one document: stood in for by another tokenizer's ids."""
    fast = bpe.with_strategy("fast")

    def encode_lists(texts, **options):
        return bpe.encode_lists([text.replace("x", "y") for text in texts], **options)

    wrong = SimpleNamespace(
        strategy=SimpleNamespace(name="native"),
        engine=SimpleNamespace(native=True),
        with_strategy=lambda _: fast,
        encode_lists=encode_lists,
        recipe=WHOLE,
    )
    verdict = check_parity(wrong, ["the same", "but x"])
    assert verdict.tokenizer is fast
    assert verdict.difference.startswith("document 1 of the sample, token 4: native 121, Hugging Face 120")
    record = said.records[-1]
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("PARITY: ")


def test_nothing_to_compare_with(bpe, tmp_path, monkeypatch):
    word_piece = Tokenizer.load(write_word_piece(tmp_path / "wp"))
    assert "huggingface" in check_parity(word_piece, ["a"]).skipped
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    verdict = check_parity(bpe, ["a"])
    assert verdict.tokenizer is bpe
    assert "pip install 'tokenmill[hf]'" in verdict.skipped
