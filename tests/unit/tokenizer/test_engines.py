"""What every engine promises, and what only some can do."""

from types import SimpleNamespace

import pytest

from small_tokenizers import write_bpe
from tokenmill import Tokenizer
from tokenmill.errors import InputError

TEXTS = ["the inner doc", "", "한국어 the"]


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    path = write_bpe(tmp_path_factory.mktemp("engines") / "bpe")
    made = {name: Tokenizer.load(path, strategy=name) for name in ("native", "huggingface")}
    inner = made["native"]
    python = SimpleNamespace(encode=inner.encode, decode=inner.decode, vocab_size=inner.vocab_size)
    return made | {"python": Tokenizer.load(python)}


@pytest.mark.parametrize("name", ["native", "huggingface", "python"])
def test_engines_agree(engines, name):
    tokenizer, want = engines[name], engines["native"].encode_lists(TEXTS)
    assert tokenizer.encode_lists(TEXTS) == want
    assert tokenizer.encode_batch(TEXTS).to_lists() == want
    assert list(tokenizer.encode_iterable(iter(TEXTS))) == tokenizer.encode("".join(TEXTS))
    assert tokenizer.count_batch(TEXTS).tolist() == [len(row) for row in want]
    assert tokenizer.decode_batch(tokenizer.encode_batch(TEXTS)) == TEXTS


@pytest.mark.parametrize("name", ["native", "huggingface"])
def test_a_lone_surrogate_is_an_error_of_ours(engines, name):
    tokenizer = engines[name]
    for act in (
        lambda: tokenizer.offsets("a\ud800b"),
        lambda: tokenizer.encode("a\ud800b"),
        lambda: list(tokenizer.encode_iterable(["a", "\ud800b"])),
        lambda: tokenizer.id_of("\ud800"),
    ):
        with pytest.raises(InputError, match="lone surrogate"):
            act()
