"""The doors of Stanford's CS336: signatures, tie rule and behaviour of its handout."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from tokenmill._core import spell
from tokenmill.base.errors import InputError
from tokenmill.compat.cs336 import Tokenizer, train_bpe

EOT = "<|endoftext|>"
TEXT = f"low low low low low\nlower lower widest widest widest newest newest{EOT}newest 안녕 newest\n" * 3


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_train_bpe_takes_the_greatest_pair(corpus):
    vocab, merges = train_bpe(corpus, 275, [EOT])
    assert merges == reference.train(reference.pieces_of([TEXT], [EOT]), 274, "lexicographic")
    assert len(vocab) == 275
    assert EOT.encode() in vocab.values()
    assert {bytes([byte]) for byte in range(256)} <= set(vocab.values())
    assert set(vocab) == set(range(275))


def test_encode_decode_and_iterables_agree(corpus):
    vocab, merges = train_bpe(str(corpus), 300, special_tokens=[EOT])
    tokenizer = Tokenizer(vocab, merges, [EOT, f"{EOT}{EOT}"])
    text = f"newest lower{EOT}{EOT}{EOT} widest 안녕🙂"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert [tokenizer.decode([i]) for i in ids].count(f"{EOT}{EOT}") == 1
    with corpus.open(encoding="utf-8") as file:
        assert list(tokenizer.encode_iterable(file)) == tokenizer.encode(TEXT)
    spelled = b"".join(tokenizer.vocab[i] for i in ids)
    assert spelled.decode() == text


@given(text=st.text(st.sampled_from("low erwidst안'\n1 "), max_size=40))
def test_ids_equal_the_naive_encoder(text):
    merges = reference.train(reference.pieces_of([TEXT], [EOT]), 290, "lexicographic")
    tokens = [*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges)]
    tokenizer = Tokenizer(dict(enumerate(tokens)), merges)
    assert [tokenizer.vocab[i] for i in tokenizer.encode(text)] == reference.encode(text, merges)


def test_from_files(tmp_path, corpus):
    vocab, merges = train_bpe(corpus, 270, [])
    names = {spell(token): token_id for token_id, token in vocab.items()}
    (tmp_path / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    lines = [f"{spell(left)} {spell(right)}" for left, right in merges]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt", [EOT])
    assert tokenizer.vocab[270] == EOT.encode()
    assert tokenizer.encode(TEXT) == Tokenizer(vocab, merges, [EOT]).encode(TEXT)


def test_merges_outside_the_vocabulary_are_refused():
    with pytest.raises(InputError, match="not in the vocabulary"):
        Tokenizer({0: b"a", 1: b"b"}, [(b"a", b"zz")])
