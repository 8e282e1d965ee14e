"""Which characters a token covers: those that Hugging Face says, for every shape of `tokenizer.json`."""

import json

import pytest
from configurations import NATIVE, built, chain, level, split, trained
from test_configurations import ADDED
from tokenizers import Tokenizer as HF
from tokenizers import normalizers, pre_tokenizers, processors
from torture import edges, mixtures

from tokenmill import Tokenizer

MARKS = ["a\u0344", "a\u0344b x", "\u0344", "e\u0301\u0308 o", "ế ấ ạ̈", "\u1100\u1161\u11a8 각"]
MARKS += ["㎏ ﬁ ½x", "İstanbul ẞ", "a\u0301\u0344\u0342 b", "ᾳ̈́"]
DOCS = [*edges(), *mixtures()[::17], *ADDED, *MARKS, *(f"the cat {text} sat" for text in MARKS)]


def with_processor(hf, *steps):
    hf = HF.from_str(hf.to_str())
    hf.post_processor = processors.Sequence(list(steps)) if len(steps) > 1 else steps[0]
    return hf


def template():
    return processors.TemplateProcessing(single="<s> $A </s> </s>", special_tokens=[("<s>", 1), ("</s>", 2)])


def trimmed(*, prefix):
    return processors.ByteLevel(trim_offsets=True, add_prefix_space=prefix)


def lacking(hf, kept, **model):
    """The same without the byte tokens of half of the alphabet."""
    data = json.loads(hf.to_str())
    vocabulary = [token for token in data["model"]["vocab"] if len(token) > 1 or kept(token)]
    whole = {token: place for place, token in enumerate(vocabulary)}
    merges = [pair for pair in data["model"]["merges"] if {*pair, "".join(pair)} <= set(whole)]
    data["model"] |= {"vocab": whole, "merges": merges, **model}
    return HF.from_str(json.dumps(data))


def even(token):
    return ord(token) % 2 == 0


SHAPES = {
    "trimmed": lambda: with_processor(trained(level()), trimmed(prefix=False)),
    "trimmed-prefix": lambda: with_processor(trained(level(prefix=True)), trimmed(prefix=True)),
    "trimmed-template": lambda: with_processor(trained(level()), trimmed(prefix=True), template()),
    "template-trimmed": lambda: with_processor(trained(level()), template(), trimmed(prefix=True)),
    "trimmed-twice": lambda: with_processor(trained(level()), trimmed(prefix=True), trimmed(prefix=False)),
    "trimmed-strip": lambda: with_processor(trained(level(), normalizers.Strip()), trimmed(prefix=True)),
    "trimmed-words": lambda: with_processor(built("llama2"), trimmed(prefix=True)),
    "trimmed-added": lambda: with_processor(built("added"), trimmed(prefix=True)),
    "replace-pairs": lambda: trained(level(), normalizers.Sequence([normalizers.Replace("  ", "\n\n\n"), normalizers.Replace("a", "")])),
    "prepend-nfd": lambda: trained(level(), normalizers.Sequence([normalizers.Prepend("éx"), normalizers.NFD()])),
    "nfkd-nfc": lambda: trained(level(), normalizers.Sequence([normalizers.NFKD(), normalizers.NFC()])),
    "removed": lambda: trained(chain(split(r"\s+", "removed"), level(regex=False))),
    "lacking": lambda: lacking(trained(level()), even),
    "lacking-unknown": lambda: lacking(trained(level()), even, unk_token="<|endoftext|>"),
    "lacking-fused": lambda: lacking(trained(level()), even, unk_token="<|endoftext|>", fuse_unk=True),
    "lacking-whole": lambda: lacking(trained(level()), even, ignore_merges=True),
    "lacking-digits": lambda: lacking(trained(chain(pre_tokenizers.Digits(individual_digits=True), level())), even),
    "lacking-falcon": lambda: lacking(built("falcon"), even),
}  # fmt: skip


@pytest.mark.parametrize("name", [*NATIVE, *SHAPES])
def test_offsets_are_those_of_hugging_face(name):
    hf = SHAPES[name]() if name in SHAPES else built(name)
    tokenizer = Tokenizer.load(hf)
    assert tokenizer.strategy.name == "native", tokenizer.strategy
    for around in (False, True):
        wrong = []
        for doc in DOCS:
            want = hf.encode(doc, add_special_tokens=around)
            got = tokenizer.offsets(doc, add_special_tokens=around)
            if got != (want.ids, want.offsets):
                wrong.append((doc, got, (want.ids, want.offsets), want.tokens))
        assert wrong[:3] == []
        if around is False:
            assert tokenizer.encode_batch(DOCS).to_lists() == [
                encoding.ids for encoding in hf.encode_batch(DOCS, add_special_tokens=False)
            ]
