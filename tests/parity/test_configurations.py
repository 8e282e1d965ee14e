"""Every shape of `tokenizer.json` that model families use encodes as HF does, and survives being saved."""

import pytest
from configurations import FAST, NATIVE, built
from torture import scalars, texts

from tokenmill import Tokenizer

ADDED = [
    "a <T0> b", "x<T1>y <T2> z", "  <T1>  <T2>  <T3>\n", "<T1><T2>", "<T1><T2><T1>", "aWord4b Word4 Word5,Word6", "[S0][S1] [S2]  [S3]",
    " [S3] ", "\n\n\n\n", "   a  b", "école École e\u0301cole E\u0301cole", "word12 WORD12 Word12", "<t9> <T9>\t<T11>", "[S15]a[S14]", "Word0Word1",
    "<mask> a  <mask>b", "<s>a b</s> c", " <s> a", "<|endoftext|>x", "<|begin_of_text|> hi", "한[S7]국 Word13é",
]  # fmt: skip
DOCS = [*texts()[::2], *ADDED, *(f"the cat {text} sat" for text in ADDED)]


def hf_ids(hf, docs, *, template=False):
    return [encoding.ids for encoding in hf.encode_batch(docs, add_special_tokens=template)]


def assert_same(tokenizer, hf, docs, **kwargs):
    want = hf_ids(hf, docs, template=kwargs.get("add_special_tokens", False))
    got = tokenizer.encode_batch(docs, threads=2, **kwargs).to_lists()
    assert [row for row in zip(docs, got, want, strict=True) if row[1] != row[2]][:3] == []


@pytest.mark.parametrize("name", [*NATIVE, *FAST])
def test_encodes_as_hf_does(name):
    hf = built(name)
    tokenizer = Tokenizer.load(hf)
    assert tokenizer.strategy.name == ("native" if name in NATIVE else "huggingface"), tokenizer.strategy
    assert_same(tokenizer, hf, DOCS)
    assert_same(tokenizer, hf, DOCS[::9], add_special_tokens=True)
    hf.encode_special_tokens = True
    assert_same(tokenizer, hf, DOCS, special="text")
    hf.encode_special_tokens = False


@pytest.mark.parametrize("name", [*NATIVE, *FAST])
def test_load_of_save_encodes_the_same(name, tmp_path):
    hf = built(name)
    tokenizer = Tokenizer.load(hf)
    tokenizer.save(tmp_path / "saved", "hf")
    again = Tokenizer.load(tmp_path / "saved")
    assert again.encode_batch(DOCS) == tokenizer.encode_batch(DOCS)
    if name in NATIVE:
        assert again.fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize("name", ["qwen-nfc", "nfkc-lower", "nfd-strip"])
def test_normalizers_follow_hf_on_every_scalar_value(name):
    hf = built(name)
    assert_same(Tokenizer.load(hf), hf, scalars(64))


@pytest.mark.parametrize("name", ["gpt2", "gpt2-prefix", "qwen-nfc", "llama2", "mistral-metaspace", "added"])
def test_a_stream_is_the_whole(name):
    tokenizer = Tokenizer.load(built(name))
    text = "\n".join(DOCS) * 3
    want = tokenizer.encode(text)
    for size in (1, 997, 70_001):
        if size == 1:
            text, want = text[:5000], tokenizer.encode(text[:5000])
        parts = (text[at : at + size] for at in range(0, len(text), size))
        assert list(tokenizer.encode_iterable(parts)) == want
