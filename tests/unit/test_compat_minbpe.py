"""minbpe's classes: the published usage example as it stands, and minbpe's own algorithm as the oracle."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.compat.minbpe import (
    GPT2_SPLIT_PATTERN,
    GPT4_SPLIT_PATTERN,
    BasicTokenizer,
    OptimizedRegexTokenizer,
    RegexTokenizer,
)
from tokenmill.errors import ConfigError, InputError

TEXT = "aaabdaaabac 한국어 한국 the theme, the then! 123 1234\n" * 4


def minbpe_merges(chunks, vocab_size):
    """minbpe's loop: every pair of every chunk counted anew; of equal counts, the one met first."""
    vocab = {i: bytes([i]) for i in range(256)}
    words = [list(chunk.encode()) for chunk in chunks]
    merges = {}
    while len(vocab) < vocab_size:
        stats = {}
        for ids in words:
            for pair in pairwise(ids):
                stats[pair] = stats.get(pair, 0) + 1
        if not stats:
            break
        best = max(stats, key=stats.__getitem__)
        new = len(vocab)
        for ids in words:
            at = 0
            while at < len(ids) - 1:
                if (ids[at], ids[at + 1]) == best:
                    ids[at : at + 2] = [new]
                at += 1
        merges[best] = new
        vocab[new] = vocab[best[0]] + vocab[best[1]]
    return merges, vocab


def test_the_usage_example_runs_as_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = TEXT * 10

    tokenizer = OptimizedRegexTokenizer(
        max_workers=4,
        batch_size=1000,
        min_freq_threshold=2
    )  # fmt: skip

    tokenizer = OptimizedRegexTokenizer(
        max_workers=8,
        batch_size=2000,
        min_freq_threshold=5,
        use_batching=True
    )  # fmt: skip

    with tokenizer:
        tokenizer.train(text, vocab_size=32000, verbose=True)
        tokenizer.save("model")

    again = OptimizedRegexTokenizer()
    again.load("model.model")
    assert again.encode(TEXT) == tokenizer.encode(TEXT)
    assert again.decode(again.encode(TEXT)) == TEXT
    assert (tmp_path / "model.vocab").read_text(encoding="utf-8").count("->") == len(tokenizer.merges)


@given(text=st.text(st.sampled_from("aaaaab c d12'\n한"), max_size=60), extra=st.integers(0, 15))
def test_basic_merges_are_minbpes(text, extra):
    tokenizer = BasicTokenizer()
    tokenizer.train(text, 256 + extra)
    merges, vocab = minbpe_merges([text], 256 + extra)
    assert list(tokenizer.merges.items()) == list(merges.items())
    assert tokenizer.vocab == vocab
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("pattern", [None, GPT2_SPLIT_PATTERN])
@given(text=st.text(st.sampled_from("aaaaabb c d12'\n한국"), max_size=120), extra=st.integers(0, 40))
def test_regex_merges_are_minbpes(pattern, text, extra):
    tokenizer = RegexTokenizer(pattern)
    tokenizer.train(text, 256 + extra)
    chunks = regex.findall(tokenizer.pattern, text)
    merges, vocab = minbpe_merges(chunks, 256 + extra)
    assert list(tokenizer.merges.items()) == list(merges.items())
    assert tokenizer.vocab == vocab


@pytest.mark.parametrize("workers", [1, 3])
def test_merges_of_prose_are_minbpes(workers):
    """A page of this project, where rare pairs are nearly all ties."""
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    merges, vocab = minbpe_merges(regex.findall(GPT4_SPLIT_PATTERN, text), 256 + 400)
    tokenizer = OptimizedRegexTokenizer(max_workers=workers)
    tokenizer.train(text, 256 + 400)
    assert list(tokenizer.merges.items()) == list(merges.items())
    assert tokenizer.vocab == vocab


def test_save_and_load_keep_pattern_and_special_tokens(tmp_path):
    tokenizer = RegexTokenizer()
    tokenizer.train(TEXT, 290)
    tokenizer.register_special_tokens({"<|endoftext|>": 100257})
    tokenizer.save(str(tmp_path / "tok"))
    again = RegexTokenizer(pattern="x")
    again.load(str(tmp_path / "tok.model"))
    assert (again.pattern, again.merges, again.special_tokens) == (
        tokenizer.pattern,
        tokenizer.merges,
        {"<|endoftext|>": 100257},
    )
    text = f"{TEXT}<|endoftext|>the"
    assert again.encode(text, allowed_special="all") == tokenizer.encode(text, allowed_special="all")
    assert 100257 in again.encode(text, allowed_special={"<|endoftext|>"})
    assert 100257 not in again.encode(text, allowed_special="none")
    assert again.decode(again.encode(text, allowed_special="all")) == text
    with pytest.raises(InputError):
        again.encode(text)


def test_what_makes_no_sense_is_refused(tmp_path):
    tokenizer = RegexTokenizer()
    with pytest.raises(ConfigError, match="already in use"):
        tokenizer.register_special_tokens({"<|x|>": 65})
    with pytest.raises(ConfigError, match="allowed_special"):
        tokenizer.encode("a", allowed_special="some")
    (tmp_path / "bad.model").write_text("minbpe v1\n\n0\n1 99999\n", encoding="utf-8")
    with pytest.raises(ValueError, match="earlier"):
        tokenizer.load(str(tmp_path / "bad.model"))


def test_minbpe_s_own_cases():
    """The texts and expectations of minbpe's own tests."""
    wikipedia = "aaabdaaabac"
    for kind in (BasicTokenizer, RegexTokenizer):
        for text in ("", "?", "hello world!!!? (안녕하세요!) lol123 😉"):
            assert kind().decode(kind().encode(text)) == text
        tokenizer = kind()
        tokenizer.train(wikipedia, 256 + 3)
        assert tokenizer.encode(wikipedia) == [258, 100, 258, 97, 99]
        assert tokenizer.decode(tokenizer.encode(wikipedia)) == wikipedia


def test_verbose_training_is_monitored(capsys):
    with OptimizedRegexTokenizer(max_workers=2) as tokenizer:
        tokenizer.train("low lower lowest " * 9, 260, verbose=True)
    printed = capsys.readouterr().out
    for line in (
        r"Initial memory usage: \d+\.\d MB",
        r"CPU cores available: \d+",
        r"Workers configured: 2",
        r"Iteration 4: Memory=\d+\.\dMB, CPU=\d+\.\d%",
    ):
        assert re.search(line, printed), printed


def test_gpt4_is_tiktoken_s(monkeypatch, tmp_path):
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))
    from vocabularies import openai, place, tiktoken_reference

    from tokenmill.compat import minbpe
    from tokenmill.tokenizer.tokenizer import Tokenizer

    file = place(*openai("cl100k_base"))
    monkeypatch.setattr(
        minbpe.Engine, "load", classmethod(lambda _cls, name: Tokenizer(_recipe_of(file, name)))
    )
    tokenizer, own = minbpe.GPT4Tokenizer(), tiktoken_reference("cl100k_base")
    text = "hello world!!!? (안녕하세요!) lol123 😉  \n\n x"
    special = "<|endoftext|>Hello<|fim_prefix|>And<|fim_suffix|> tokens.<|fim_middle|> FIM 👋<|endofprompt|>"
    assert tokenizer.encode(text) == own.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode(special, "all") == own.encode(special, allowed_special="all")
    assert tokenizer.encode(special, {"<|endoftext|>"}) == own.encode(
        special, allowed_special={"<|endoftext|>"}, disallowed_special=()
    )
    tokenizer.save_vocab(str(tmp_path / "gpt4.vocab"))
    assert (tmp_path / "gpt4.vocab").read_text(encoding="utf-8").count("\n") >= 100_000
    for refuse in (
        lambda: tokenizer.train("a", 300),
        lambda: tokenizer.save("x"),
        lambda: tokenizer.load("x"),
    ):
        with pytest.raises(NotImplementedError):
            refuse()


def _recipe_of(file, name):
    from tokenmill.tokenizer.files.kinds import load_recipe

    assert name == "cl100k_base"
    return load_recipe(file)
