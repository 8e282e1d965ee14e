"""Every family of patterns in every kind of file that can carry it, against tiktoken and Hugging Face.

The vocabulary was trained by Hugging Face on whole texts, so its tokens span what any family cuts, and a cut in
another place shows in the ids.
"""

import base64
import json
from functools import cache

import pytest
import tiktoken
from families import FAMILIES, level
from tokenizers import Tokenizer as HF
from tokenizers import models, pre_tokenizers, trainers
from torture import edges, mixtures, runs

import tokenmill
from tokenmill import Tokenizer, _core
from tokenmill._core import unspell
from tokenmill.errors import ConfigError

TEXTS = [*edges(), *runs()[::3], *mixtures()[::2]]
NAMES = list(FAMILIES)
SINGLE = [name for name in NAMES if FAMILIES[name][0] is not None]


@cache
def trained():
    """`(vocabulary, merges)` in the spelling of a tokenizer.json; the bytes come first."""
    hf = HF(models.BPE())
    hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    hf.train_from_iterator([*mixtures(), *edges() * 3], trainer)
    model = json.loads(hf.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def hf_file(pre_tokenizer, vocabulary=None, merges=None):
    known, order = trained()
    model = {
        "type": "BPE",
        "vocab": vocabulary or known,
        "merges": [" ".join(pair) for pair in merges or order],
    }
    return json.dumps(
        {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": level(use_regex=True), "model": model,
        }
    )  # fmt: skip


@cache
def by_hf(name):
    """The ids that Hugging Face gives with the published pre-tokenizer."""
    hf = HF.from_str(hf_file(FAMILIES[name][1]))
    return [encoding.ids for encoding in hf.encode_batch(TEXTS)]


@cache
def ranks():
    return {unspell(token): rank for token, rank in trained()[0].items()}


@cache
def by_tiktoken(name):
    """The ids that tiktoken gives: with the published regex, or for each piece that Hugging Face's steps cut."""
    regex, pre_tokenizer = FAMILIES[name]
    if regex is not None:
        encoding = tiktoken.Encoding(name, pat_str=regex, mergeable_ranks=ranks(), special_tokens={})
        return [encoding.encode_ordinary(text) for text in TEXTS]
    whole = tiktoken.Encoding(name, pat_str=r"(?s:.+)", mergeable_ranks=ranks(), special_tokens={})
    hf = HF.from_str(hf_file(pre_tokenizer))
    pieces = [[piece for piece, _ in hf.pre_tokenizer.pre_tokenize_str(text)] for text in TEXTS]
    spelled = [[unspell(piece) for piece in row] for row in pieces]
    return [[i for piece in row for i in whole._encode_bytes(piece)] for row in spelled]


def differences(tokenizer, want):
    """The first texts whose ids differ."""
    found = tokenizer.encode_batch(TEXTS, special="text").to_lists()
    assert len(found) == len(want)
    return [row for row in zip(TEXTS, found, want, strict=True) if row[1] != row[2]][:3]


def write_tiktoken(path):
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks().items()]
    path.write_text("".join(lines))
    return path


def write_vocab_merges(directory):
    vocabulary, merges = trained()
    (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    text = "".join(f"{left} {right}\n" for left, right in merges)
    (directory / "merges.txt").write_text("#version: 0.2\n" + text, encoding="utf-8")
    return directory / "vocab.json"


def write_minbpe(path, regex):
    """minbpe numbers the bytes by value and then the merges; what Hugging Face gives is renumbered to that."""
    vocabulary, merges = trained()
    numbers = {token: place for place, token in enumerate(spelled_bytes())}
    lines = []
    for left, right in merges:
        lines.append(f"{numbers[left]} {numbers[right]}\n")
        numbers.setdefault(left + right, len(numbers))
    path.write_text("minbpe v1\n" + regex + "\n0\n" + "".join(lines), encoding="utf-8")
    return {vocabulary[token]: number for token, number in numbers.items()}


def spelled_bytes():
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = {unspell(token): token for token in level.alphabet()}
    return [alphabet[bytes([byte])] for byte in range(256)]


def test_the_table_is_the_one_that_is_tested():
    names = [name for family in _core.families() for name in (family.name, *family.aliases)]
    assert sorted(names) == sorted(NAMES)
    assert {f.name for f in _core.families() if f.regex is None} <= set(NAMES) - set(SINGLE)


@pytest.mark.parametrize("name", NAMES)
def test_tiktoken_files(name, tmp_path):
    path = write_tiktoken(tmp_path / "x.tiktoken")
    tokenizer = Tokenizer.load(path, pattern=name)
    assert tokenizer.strategy.name == "native"
    assert differences(tokenizer, by_tiktoken(name)) == []
    if name in SINGLE:
        assert differences(Tokenizer.load(path, pattern=FAMILIES[name][0]), by_tiktoken(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_vocabulary_and_merges(name, tmp_path):
    tokenizer = Tokenizer.load(write_vocab_merges(tmp_path), pattern=name)
    assert differences(tokenizer, by_hf(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_tokenizer_json(name, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(hf_file(FAMILIES[name][1]), encoding="utf-8")
    tokenizer = Tokenizer.load(path)
    canonical = next(f.name for f in _core.families() if name in (f.name, *f.aliases))
    assert (tokenizer.strategy.name, tokenizer.family) == ("native", canonical)
    assert differences(tokenizer, by_hf(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_minbpe_files(name, tmp_path):
    path = tmp_path / "x.model"
    renumbered = write_minbpe(path, FAMILIES[name][0] or "[a-z]+")
    want = [[renumbered[i] for i in row] for row in by_hf(name)]
    assert differences(Tokenizer.load(path, pattern=name), want) == []
    if name in SINGLE:
        assert differences(Tokenizer.load(path), want) == []


@pytest.mark.parametrize("name", SINGLE)
def test_tekken_files(name, tmp_path):
    path = tmp_path / "tekken.json"
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode()} for token, rank in ranks().items()
    ]
    config = {
        "pattern": FAMILIES[name][0],
        "default_vocab_size": len(vocab) + 3,
        "default_num_special_tokens": 3,
    }
    path.write_text(json.dumps({"config": config, "vocab": vocab}))
    want = [[i + 3 for i in row] for row in by_tiktoken(name)]
    assert differences(Tokenizer.load(path), want) == []


@pytest.mark.parametrize("name", NAMES)
def test_training(name, tmp_path):
    """What is trained encodes as Hugging Face does with its merges and the published pre-tokenizer."""
    tokenizer = tokenmill.train_from_iterator(TEXTS, vocab_size=600, pattern=name)
    tokenizer.save(tmp_path, "hf")
    saved = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    for pre_tokenizer in (saved["pre_tokenizer"], FAMILIES[name][1]):
        hf = HF.from_str(json.dumps(saved | {"pre_tokenizer": pre_tokenizer}))
        assert differences(tokenizer, [encoding.ids for encoding in hf.encode_batch(TEXTS)]) == []


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_again(name, tmp_path):
    tokenizer = Tokenizer.load(write_vocab_merges(tmp_path), pattern=name)
    want = by_hf(name)
    tokenizer.save(tmp_path / "hf", "hf")
    assert differences(Tokenizer.load(tmp_path / "hf"), want) == []
    hf = HF.from_file(str(tmp_path / "hf" / "tokenizer.json"))
    assert [encoding.ids for encoding in hf.encode_batch(TEXTS)] == want
    tokenizer.save(tmp_path / "pair", "vocab-merges")
    assert differences(Tokenizer.load(tmp_path / "pair"), want) == []
    tokenizer.save(tmp_path / "again.tiktoken", "tiktoken")
    again = Tokenizer.load(tmp_path / "again.tiktoken", pattern=name)
    assert differences(again, by_tiktoken(name)) == []


@pytest.mark.parametrize("load", ["tiktoken", "vocab-merges", "train", "tokenizer.json"])
@pytest.mark.parametrize(
    ("wrong", "nearest"), [("gtp2", "gpt2"), ("deepseek_v3", "deepseek-v3"), ("O200K", "o200k")]
)
def test_a_name_that_is_no_family_is_an_error(load, wrong, nearest, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(hf_file(level(use_regex=True)), encoding="utf-8")
    act = {
        "tiktoken": lambda: Tokenizer.load(write_tiktoken(tmp_path / "x.tiktoken"), pattern=wrong),
        "vocab-merges": lambda: Tokenizer.load(write_vocab_merges(tmp_path), pattern=wrong),
        "train": lambda: tokenmill.train_from_iterator(["a b"], 300, pattern=wrong),
        "tokenizer.json": lambda: Tokenizer.load(path, pattern=wrong),
    }[load]
    with pytest.raises(
        ConfigError, match=rf"not a family; did you mean .{nearest}.\? .*kimi-k2.*\(\?:{wrong}\)"
    ):
        act()
