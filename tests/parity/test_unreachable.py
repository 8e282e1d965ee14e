"""Unreachable tokens equal the lists that magikarp published for two vocabularies, its false alarms aside."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from vocabularies import case

from tokenmill import Tokenizer, card

PUBLISHED = json.loads(Path(__file__).with_name("magikarp.json").read_text(encoding="utf-8"))


def unreachable(tokenizer):
    found = card(tokenizer)["tokenizers"][0]
    return {row["id"]: row for row in found["unreachable"]}, set(found["only_inside_text"])


def test_o200k():
    tokenizer, _ = case("o200k_base")
    never, inside = unreachable(tokenizer)
    assert never.keys() | inside == set(PUBLISHED["o200k_base"])
    # False alarms of a test of each token alone: these follow a mark, as in a line of code and its comment.
    assert {tokenizer.token_bytes(id_) for id_ in inside} == {
        b"\n//", b"\n\n//", b"\n\n\n//", b"\n///", b"\n//\n//", b"\r\n//", b"\r\n\r\n//",
    }  # fmt: skip
    assert tokenizer.id_of(b"\n//") in tokenizer.encode("☃\n// b")
    for id_, row in never.items():
        assert [part["id"] for part in row["encodes_to"]] == tokenizer.encode(row["token"], special="text")
        assert tokenizer.token_bytes(id_) == row["token"].encode()


def test_qwen3():
    tokenizer, _ = case("qwen")
    # Qwen 3 normalizes to NFC, which the file of ranks does not say.
    never, inside = unreachable(Tokenizer(replace(tokenizer.recipe, normalizer={"type": "NFC"})))
    assert not inside
    # Three tokens look like special ones, which magikarp lists apart; they are ordinary tokens of the file.
    special = {tokenizer.id_of(text) for text in (b"<s>", b"</s>", b"<unk>")}
    assert never.keys() == set(PUBLISHED["qwen"]) | special


@pytest.mark.parametrize("name", ["gpt2", "deepseek-v3", "tekken"])
def test_none_where_none_is_published(name):
    assert unreachable(case(name)[0]) == ({}, set())


@pytest.mark.parametrize(
    ("name", "known"), [("gpt2", "gpt-2"), ("o200k_base", "gpt-4o"), ("tekken", "pixtral")]
)
def test_llama_cpp_knows_the_pre_tokenizer(name, known):
    assert card(case(name)[0])["tokenizers"][0]["llama_cpp"]["name"] == known
