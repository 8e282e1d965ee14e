"""Ids back to text: that of Hugging Face's decoder, or of SentencePiece for its models, whatever the ids."""

import json
import random

import pytest
import sentencepiece
from configurations import NATIVE, built, level, marked, spm_style, trained
from tokenizers import AddedToken, decoders, pre_tokenizers
from tokenizers import Tokenizer as HF
from torture import edges, mixtures
from vocabularies import place, spm

from tokenmill import Tokenizer


def decoded_by(hf, decoder):
    data = json.loads(hf.to_str()) | {"decoder": decoder and json.loads(decoder.__getstate__())}
    return HF.from_str(json.dumps(data))


def steps(*parts):
    return decoders.Sequence(list(parts))


def odd_tokens(hf):
    """Added tokens whose characters mean bytes to a decoder."""
    hf = HF.from_str(hf.to_str())
    hf.add_tokens(
        [AddedToken(token) for token in ("é", "Ġx", "안녕", "▁a▁", "<0xC3>", "<0x0a>", "<0x+A>", "ab</w>")]
    )
    hf.add_special_tokens([AddedToken("ñ"), AddedToken("[SEP]")])
    return hf


TO_SPACE = decoders.Replace("▁", " ")
SHAPES = {
    "null": lambda: decoded_by(built("gpt2"), None),
    "null-words": lambda: decoded_by(built("llama2"), None),
    "suffix": lambda: decoded_by(built("clip"), decoders.BPEDecoder("</w>")),
    "suffix-elsewhere": lambda: decoded_by(built("gpt2"), decoders.BPEDecoder("e")),
    "metaspace": lambda: decoded_by(built("mistral-metaspace"), decoders.Metaspace()),
    "metaspace-first": lambda: decoded_by(built("mistral-metaspace"), decoders.Metaspace(prepend_scheme="first")),
    "metaspace-never": lambda: decoded_by(built("mistral-metaspace"), decoders.Metaspace(prepend_scheme="never")),
    "metaspace-bytes": lambda: decoded_by(built("llama2"), steps(decoders.ByteFallback(), decoders.Metaspace())),
    "no-fuse": lambda: decoded_by(built("llama2"), steps(TO_SPACE, decoders.ByteFallback(), decoders.Strip(" ", 1, 0))),
    "no-strip": lambda: decoded_by(built("llama2"), steps(TO_SPACE, decoders.ByteFallback(), decoders.Fuse())),
    "strip-more": lambda: decoded_by(built("llama2"), steps(TO_SPACE, decoders.Fuse(), decoders.Strip("t", 2, 0))),
    "words-byte-level": lambda: decoded_by(built("llama2"), decoders.ByteLevel()),
    "bytes-fallback": lambda: decoded_by(built("gpt2"), steps(decoders.ByteFallback(), decoders.Fuse())),
    "odd-bytes": lambda: odd_tokens(trained(level())),
    "odd-words": lambda: odd_tokens(built("llama2")),
    "odd-no-fallback": lambda: odd_tokens(spm_style(marked(prepend=True), None, fallback=False)),
    "odd-metaspace": lambda: odd_tokens(
        decoded_by(spm_style(None, pre_tokenizers.Metaspace()), decoders.Metaspace())
    ),
    "odd-clip": lambda: odd_tokens(built("clip")),
}  # fmt: skip


def random_ids(limit, count=300):
    rng = random.Random(5)
    for _ in range(count):
        low = rng.choice([0, 0, max(limit - 20, 0)])
        yield [rng.randrange(low, limit) for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 9, 40]))]


def rewritten(hf):
    """Added tokens that HF 0.23 writes in their normalized form; to versions before, and to us, they are what they are."""
    tokens = hf.get_added_tokens_decoder().items() if hf.normalizer else ()
    changed = (
        i
        for i, token in tokens
        if token.normalized and hf.normalizer.normalize_str(token.content) != token.content
    )
    return frozenset(changed)


@pytest.mark.parametrize("name", [*NATIVE, *SHAPES])
def test_texts_are_those_of_hugging_face(name):
    hf = SHAPES[name]() if name in SHAPES else built(name)
    tokenizer = Tokenizer.load(hf)
    assert tokenizer.strategy.name == "native", tokenizer.strategy
    apart = rewritten(hf)
    documents = [encoding.ids for encoding in hf.encode_batch([*edges(), *mixtures()[::29]])]
    documents = [ids for ids in documents if apart.isdisjoint(ids)]
    assert len(documents) > 100
    wrong = []
    for ids in [*documents, *random_ids(tokenizer.vocab_size)]:
        known = [i for i in ids if i not in apart and hf.id_to_token(i) is not None]
        for skip in (False, True):
            if not known and "BPEDecoder" in hf.to_str():
                continue  # HF subtracts one from nothing
            want = hf.decode(known, skip_special_tokens=skip)
            got = tokenizer.decode(known, skip_special_tokens=skip)
            wrong += [(known, got, want)] if got != want else []
    assert wrong[:3] == []
    assert tokenizer.decode_batch(documents) == [
        hf.decode(ids, skip_special_tokens=False) for ids in documents
    ]
    batch = tokenizer.encode_batch([doc for doc in edges() if apart.isdisjoint(tokenizer.encode(doc))])
    assert tokenizer.decode_batch(batch) == [
        hf.decode(list(ids), skip_special_tokens=False) for ids in batch.to_lists()
    ]


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v7"])
def test_texts_are_those_of_sentencepiece(version):
    path = place(*spm(version))
    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = Tokenizer.load(path)
    texts = [*edges(), *mixtures()[::29]]
    near = [[i % 300 for i in ids] for ids in random_ids(1 << 20)]
    for ids in [*library.encode(texts), *near, *random_ids(tokenizer.vocab_size), [0], [0, 5], [35, 300]]:
        assert tokenizer.decode(ids, skip_special_tokens=True) == library.decode(ids), ids
