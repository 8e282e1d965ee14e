"""Zero differing documents against tiktoken, HF tokenizers and sentencepiece, on every path in and out."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from torture import mixtures, scalars, texts
from vocabularies import NAMES, case


def differing(got, want, docs):
    return [(doc, mine, theirs) for doc, mine, theirs in zip(docs, got, want, strict=True) if mine != theirs]


@pytest.mark.parametrize("name", NAMES)
def test_torture(name):
    tokenizer, reference = case(name)
    assert tokenizer.strategy.name == "native"
    docs = texts()
    want = reference(docs)
    got = tokenizer.encode_batch(docs, special="text", threads=2).to_lists()
    assert differing(got, want, docs)[:3] == []
    assert [tokenizer.encode(doc, special="text") for doc in docs[::7]] == want[::7]


@pytest.mark.parametrize("name", NAMES)
def test_every_scalar_value(name):
    tokenizer, reference = case(name)
    docs = scalars(64)
    got = tokenizer.encode_batch(docs, special="text", threads=2).to_lists()
    assert differing(got, reference(docs), docs)[:3] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_scalar_value_even_the_unassigned(name):
    tokenizer, reference = case(name)
    docs = scalars(1)
    got = tokenizer.encode_batch(docs, special="text", threads=2).to_lists()
    assert differing(got, reference(docs), docs)[:3] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_batch_path_agrees(name):
    tokenizer, _ = case(name)
    docs = mixtures()[:600]
    want = [tokenizer.encode(doc) for doc in docs]
    kinds = [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
    ]
    arrays = [pa.array(docs, pa.string()).cast(kind) for kind in kinds]
    ways = [
        docs,
        [doc.encode() for doc in docs],
        *arrays,
        pa.chunked_array([arrays[0][:100], arrays[0][100:]]),
    ]
    for way in ways:
        for threads in (1, 3):
            batch = tokenizer.encode_batch(way, threads=threads)
            assert batch.ids.dtype == (np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)
            assert batch.to_lists() == want
    assert tokenizer.encode_batch(arrays[5][50:90]).to_lists() == want[50:90]
    assert tokenizer.encode_batch(arrays[0][50:90]).to_lists() == want[50:90]
    assert tokenizer.count_batch(docs).tolist() == [len(ids) for ids in want]


@pytest.mark.parametrize("name", NAMES)
def test_a_large_document_is_the_same_in_parts(name):
    tokenizer, reference = case(name)
    words = " ".join(mixtures()) + "\n"
    text = "".join(
        f"{part} and so on\n{part}" for part in (words, words[::-1], "한국어 문장. 中文\n句子。" * 9000)
    )
    want = reference([text])[0]
    assert tokenizer.encode_batch([text, "x"], special="text", threads=3)[0].tolist() == want
    assert tokenizer.encode(text, special="text") == want
    parts = [text[at : at + 5003] for at in range(0, len(text), 5003)]
    assert list(tokenizer.encode_iterable(parts, special="text")) == want


def test_every_published_encoding_has_the_special_tokens_of_tiktoken(monkeypatch):
    import tiktoken_ext.openai_public as public

    from tokenmill.tokenizer.files.tiktoken import ENCODINGS

    monkeypatch.setattr(public, "load_tiktoken_bpe", lambda *_, **__: {})
    monkeypatch.setattr(public, "data_gym_to_mergeable_bpe_ranks", lambda *_, **__: {})
    for name in public.ENCODING_CONSTRUCTORS:
        assert ENCODINGS[name][1] == getattr(public, name)()["special_tokens"], name


def test_harmony_as_a_file_and_as_an_object(tmp_path):
    """Two of its special tokens have one id."""
    import shutil

    import tiktoken
    from vocabularies import openai, place, ranks_of

    from tokenmill import Tokenizer
    from tokenmill.errors import TokenizerError
    from tokenmill.tokenizer.files.tiktoken import ENCODINGS

    source = place(*openai("o200k_base"))
    shutil.copy(source, tmp_path / "o200k_harmony.tiktoken")
    pattern = r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\s+|."""
    special = ENCODINGS["o200k_harmony"][1]
    text = "<|start|>user<|message|>Hi there<|end|><|endofprompt|><|reserved_200018|>"
    encoding = tiktoken.Encoding(
        "o200k_harmony", pat_str=pattern, mergeable_ranks=ranks_of(source), special_tokens=special
    )
    want = encoding.encode(text, allowed_special="all")
    assert want[-1] == want[-2] == 200018
    for tokenizer in (Tokenizer.load(tmp_path / "o200k_harmony.tiktoken"), Tokenizer.load(encoding)):
        assert tokenizer.strategy.name == "native"
        assert tokenizer.encode(text) == want
        assert tokenizer.vocab_size == 201088
        for convert in (tokenizer.as_hf, partial(tokenizer.save, tmp_path / "hf")):
            with pytest.raises(TokenizerError, match=r"have the same id 200018.*'tiktoken'"):
                convert()
        tokenizer.save(tmp_path / "again" / "o200k_harmony.tiktoken", "tiktoken")
        again = Tokenizer.load(tmp_path / "again" / "o200k_harmony.tiktoken")
        assert again.as_tiktoken().encode(text, allowed_special="all") == want
    assert not (tmp_path / "hf").exists()
