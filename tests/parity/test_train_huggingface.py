"""Merge by merge with Hugging Face's trainer, and ids alike from the files that are saved."""

import json
import random

import pytest

import tokenmill
from tokenmill._core import spell

hf = pytest.importorskip("tokenizers")


def corpus():
    random.seed(4)
    stems = [
        "low", "new", "wide", "한국", "말이", "中文", "文本", "Ünï", "code", "x_1", "==", "  ", "\n\n",
        "don't",
    ]  # fmt: skip
    ends = ["er", "est", "", "s", "다", "的", "!", "\t", " ", "---", "'ll"]
    return [
        "".join(random.choice(stems) + random.choice(ends) + random.choice([" ", ""]) for _ in range(400))
        for _ in range(20)
    ]


def hf_merges(texts, vocab_size, **options):
    tokenizer = hf.Tokenizer(hf.models.BPE())
    tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = hf.pre_tokenizers.ByteLevel.alphabet()
    trainer = hf.trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False, **options
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer, [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def our_merges(tokenizer):
    model = tokenizer.recipe.model
    spelled = [None if token is None else spell(token) for token in model.tokens]
    return [(spelled[left], spelled[right]) for left, right in model.merges]


@pytest.mark.parametrize("options", [{}, {"min_frequency": 7}], ids=["plain", "min_frequency"])
def test_merges_equal_hugging_face(options):
    texts = corpus()
    ours = tokenmill.train_from_iterator(texts, 900, threads=2, **options)
    theirs, merges = hf_merges(texts, 900, special_tokens=["<|endoftext|>"], **options)
    assert our_merges(ours) == merges
    assert ours.vocab_size == theirs.get_vocab_size()


def test_a_token_has_at_most_max_token_length_bytes():
    texts = corpus()
    ours = tokenmill.train_from_iterator(texts, 900, max_token_length=5, special_tokens=[])
    # Hugging Face stops one byte short of the length it is given.
    _, merges = hf_merges(texts, 900, max_token_length=6)
    assert our_merges(ours) == merges
    assert max(len(token) for token in ours.recipe.model.tokens) == 5


def test_special_tokens_get_the_ids_that_hugging_face_gives():
    texts = corpus()
    special = ["<|endoftext|>", "<pad>"]
    ours = tokenmill.train_from_iterator(texts, 700, special_tokens=special)
    theirs, merges = hf_merges(texts, 700, special_tokens=special)
    assert our_merges(ours) == merges
    vocabulary = theirs.get_vocab()
    assert ours.special_tokens == {token: vocabulary[token] for token in special}
    for text in texts[:5]:
        assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", "deepseek-v3", "starcoder"])
def test_the_saved_file_encodes_alike_in_hugging_face(tmp_path, pattern):
    texts = corpus()
    ours = tokenmill.train_from_iterator(
        texts, 800, pattern=pattern, special_tokens=["<|end|>"], output=tmp_path
    )
    theirs = hf.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    again = tokenmill.Tokenizer.load(tmp_path)
    for text in [*texts, "unseen words 123456 \t\n 안녕 世界 🙂<|end|>x"]:
        ids = ours.encode(text)
        assert ids == theirs.encode(text, add_special_tokens=False).ids
        assert ids == again.encode(text)
        assert theirs.decode(ids, skip_special_tokens=False) == text == ours.decode(ids)


def test_every_format_encodes_alike(tmp_path):
    tiktoken = pytest.importorskip("tiktoken")
    load_tiktoken_bpe = pytest.importorskip("tiktoken.load").load_tiktoken_bpe
    texts = corpus()
    ours = tokenmill.train_from_iterator(
        texts, 700, special_tokens=["<|end|>"], output=tmp_path,
        save_as=("hf", "tiktoken", "vocab-merges", "minbpe"),
    )  # fmt: skip
    text = "".join(texts[:2])
    ids = ours.encode(text)
    load = tokenmill.Tokenizer.load
    assert load(tmp_path / "vocab.json").encode(text) == ids
    assert load(tmp_path / "tokenizer.tiktoken", pattern="gpt2").encode(text) == ids
    ranks = load_tiktoken_bpe(str(tmp_path / "tokenizer.tiktoken"))
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    encoding = tiktoken.Encoding(
        "trained", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|end|>": 0}
    )
    assert encoding.encode(text) == ids
    minbpe = load(tmp_path / "tokenizer.model")
    assert [minbpe.token_bytes(i) for i in minbpe.encode(text)] == [ours.token_bytes(i) for i in ids]
    assert "[ ][" in (tmp_path / "tokenizer.vocab").read_text(encoding="utf-8")
