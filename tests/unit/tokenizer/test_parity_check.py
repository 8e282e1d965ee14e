"""Native against Hugging Face on the user's documents: agreement, difference, nothing to compare with."""

import json
import logging
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from small_tokenizers import write_bpe, write_word_piece
from tokenmill.engine.parity.check import check_parity, first_difference, take_sample
from tokenmill.engine.parity.part import part_for
from tokenmill.engine.recipe import Recipe
from tokenmill.engine.tokenizer import Tokenizer

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
        engine=SimpleNamespace(imitates=True),
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
    assert "fast" in check_parity(word_piece, ["a"]).skipped
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    verdict = check_parity(bpe, ["a"])
    assert verdict.tokenizer is bpe
    assert "pip install 'tokenmill[hf]'" in verdict.skipped


def test_samples_are_bounded():
    assert take_sample(["a" * 15], most=160) == ["a" * 10]
    assert len(take_sample(["아"] * 10, most=6)) == 2
    assert len(take_sample(["a"] * 10_000)) == 512


def test_differences_at_the_end_are_found():
    assert first_difference(["ab"], [[1, 2]], [[1, 2]]) is None
    assert "token 1: native nothing, Hugging Face 2" in first_difference(["ab"], [[1]], [[1, 2]])


def test_a_part_of_the_vocabulary_gives_the_same_ids(bpe):
    texts = ["the other", "in <|endoftext|> 안녕", 'a "quoted" \\ thing\n']
    part = part_for(bpe.recipe, texts)
    whole, small = json.loads(bpe.recipe.hf.spelled()), json.loads(part.hf.spelled())
    assert len(small["model"]["vocab"]) < len(whole["model"]["vocab"]) + len(whole["added_tokens"])
    assert {"Ġ the", "e r"} < set(small["model"]["merges"]) < set(whole["model"]["merges"])
    for special in ("text", "parse"):
        wanted, found = (
            Tokenizer(recipe, "fast").encode_batch(texts, special=special).to_lists()
            for recipe in (bpe.recipe, part)
        )
        assert found == wanted
    assert Tokenizer(part, "fast").vocab_size == Tokenizer(bpe.recipe, "fast").vocab_size == bpe.vocab_size


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "Metaspace"}},
        {"model": {"ignore_merges": True}},
        {"model": {"end_of_word_suffix": "</w>"}},
        {"model": {"unk_id": 3}},
        {"model": {"merges": ()}},
    ],
    ids=str,
)
def test_where_the_model_sees_other_bytes_it_is_loaded_whole(bpe, changes):
    recipe = bpe.recipe
    if "model" in changes:
        changes = {"model": replace(recipe.model, **changes["model"])}
    assert part_for(recipe, ["the"]) is not None
    assert part_for(replace(recipe, **changes), ["the"]) is None
