"""Tokenizer files made to do harm: a sentence, whatever the borrowed library would have done with them."""

import base64
import io
import json
import struct
import subprocess
import sys

import pytest

from tokenmill._core import spell
from tokenmill.tokenizer.engines import vetting

BYTES = {spell(bytes([byte])): byte for byte in range(256)} | {"th": 256}
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
TEXT = "the cat sat on the mat, 안녕 1234 \U0010ffff e\u0301 " + "t" * 500


def bpe(**parts):
    model = {"type": "BPE", "vocab": BYTES, "merges": [["t", "h"]]} | parts.pop("model", {})
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": LEVEL,
        "post_processor": None,
        "decoder": LEVEL,
        "model": model,
    } | parts


def unigram(vocab, unk=0, **parts):
    return bpe(
        model={"type": "Unigram", "vocab": vocab, "unk_id": unk, "byte_fallback": False},
        pre_tokenizer=None,
        decoder=None,
        **parts,
    )


def word_piece(**model):
    vocab = {"[UNK]": 0, "the": 1, "##e": 2}
    return bpe(
        model={
            "type": "WordPiece",
            "vocab": vocab,
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            **model,
        },
        pre_tokenizer={"type": "Whitespace"},
        decoder=None,
    )


def charsmap(trie, strings):
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + strings).decode()


def precompiled(text):
    return {"type": "Precompiled", "precompiled_charsmap": text}


GROW = {"type": "Replace", "pattern": {"String": "t"}, "content": "t" * 100}
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [],
    "special_tokens": {},
}
HOSTILE = {
    "grow": bpe(normalizer={"type": "Sequence", "normalizers": [GROW] * 12}),
    "grow-regex": bpe(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"Regex": ""}, "content": "x" * 40}] * 4}),
    "grow-prepend": bpe(normalizer={"type": "Prepend", "prepend": "x" * 1_000_000}),
    "grow-decoder": bpe(decoder={"type": "Sequence", "decoders": [GROW] * 12}),
    "grow-map": bpe(normalizer=precompiled(charsmap(b"", b"x" * 5000 + b"\0"))),
    "map-empty": bpe(normalizer=precompiled("")),
    "map-short": bpe(normalizer=precompiled("AAA=")),
    "map-lies": bpe(normalizer=precompiled(base64.b64encode(b"\xff" * 64).decode())),
    "map-random": bpe(normalizer=precompiled(charsmap(bytes(range(256)) * 4, b"ab\0cd\0"))),
    "map-odd": bpe(normalizer=precompiled(charsmap(struct.pack("<256I", *(0x80000000 | n << 10 for n in range(256))), b"\xff\xfe\0"))),
    "replace-nothing": bpe(normalizer={"type": "Replace", "pattern": {"String": ""}, "content": "x"}),
    "fixed-length": bpe(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "FixedLength", "length": 0}, LEVEL]}),
    "delimiter": bpe(pre_tokenizer={"type": "CharDelimiterSplit", "delimiter": ""}),
    "template": bpe(post_processor=TEMPLATE, pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, LEVEL]}),
    "unigram-empty": unigram([]),
    "unigram-unknown": unigram([["a", 0.0]], 7),
    "unigram-no-unknown": unigram([["a", 0.0]], None),
    "unigram-scores": unigram([["<unk>", 0.0], ["t", 1e308], ["h", -1e308], ["th", 1e308], ["the", 1e308]]),
    "unigram-same": unigram([["a", 0.0]] * 5),
    "unigram-blank": unigram([["<unk>", 0.0], ["", 1.0]]),
    "word-piece-zero": word_piece(max_input_chars_per_word=0),
    "word-piece-prefix": word_piece(continuing_subword_prefix=""),
    "word-piece-unknown": word_piece(unk_token="none"),
    "dropout": bpe(model={"dropout": 7.0}),
    "suffix": bpe(model={"end_of_word_suffix": "x" * 100_000, "ignore_merges": True}),
    "prefix": bpe(model={"continuing_subword_prefix": "##", "vocab": BYTES | {"th": 256}}),
    "prefix-long": bpe(model={"continuing_subword_prefix": "x" * 50}),
    "strip-decoder": bpe(pre_tokenizer={"type": "Whitespace"}, decoder={"type": "Strip", "content": "t", "start": 0, "stop": 99}),
    "ctc": bpe(decoder={"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True}),
    "truncation": bpe(pre_tokenizer={"type": "Whitespace"}, truncation={"max_length": 0, "strategy": "LongestFirst", "stride": 99, "direction": "Right"}),
    "padding": bpe(pre_tokenizer={"type": "Whitespace"}, padding={"strategy": {"Fixed": 1 << 60}, "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}),
    "regex": bpe(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(?:a?){90}\\X(a{90})"}, "behavior": "Isolated", "invert": False}),
    "ids-far": bpe(model={"vocab": BYTES | {"th": 4_000_000_000}}),
    "word-level": bpe(model={"type": "WordLevel", "vocab": {}, "unk_token": "x"}),
}  # fmt: skip
CHILD = """
import json, sys, warnings
warnings.simplefilter("ignore")
from tokenmill import Tokenizer, TokenmillError
for path in sys.argv[2:]:
    try:
        tokenizer = Tokenizer.load(path)
        ids = tokenizer.encode(sys.argv[1])
        tokenizer.decode(ids[:50])
        print("ran", path, tokenizer.strategy.name)
    except TokenmillError as error:
        print("refused", path, str(error)[:300])
"""


def run(paths):
    child = subprocess.run(
        [sys.executable, "-c", CHILD, TEXT, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert child.stderr == ""
    lines = child.stdout.splitlines()
    assert len(lines) == len(paths)
    return lines


@pytest.mark.timeout(600)
def test_no_file_panics_aborts_or_grows(tmp_path):
    paths = []
    for name, data in HOSTILE.items():
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(data))
    lines = dict(zip(HOSTILE, run(paths), strict=True))
    for name in ("grow", "grow-regex", "grow-prepend", "grow-decoder", "grow-map"):
        assert "times as long" in lines[name], lines[name]


@pytest.mark.timeout(600)
def test_damaged_models_of_sentencepiece(tmp_path):
    import random

    import sentencepiece

    model = io.BytesIO()
    lines = [f"the cat {i} sat" for i in range(100)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        minloglevel=2,
        model_type="unigram",
        vocab_size=30,
        hard_vocab_limit=False,
    )
    whole, rng, paths = model.getvalue(), random.Random(4), []
    for number in range(12):
        data = bytearray(whole)
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        paths.append(tmp_path / f"{number}.model")
        paths[-1].write_bytes(bytes(data))
    run(paths)


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, None), (1, "damaged"), (-6, "damaged"), (-11, "damaged"), (3, "panics"), (-9, "load it again"), (-15, "load it again")],
)  # fmt: skip
def test_only_what_a_file_can_have_done_is_its_fault(code, words):
    told = vetting._explain(code, "index out of bounds")
    assert told == "" if words is None else words in told


def test_a_trial_that_could_not_begin_is_no_verdict(tmp_path, monkeypatch):
    """A library that cannot be imported, as while pip installs it: nothing is said of the file, and nothing noted."""
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "cache"))
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "tokenizers.py").write_text("raise ImportError('half installed')")
    monkeypatch.syspath_prepend(str(shadow))
    vetting.vet("hf", json.dumps(unigram([["a", 0.0]])).encode(), "x.json")
    assert not list((tmp_path / "cache").rglob("vetted/*"))
