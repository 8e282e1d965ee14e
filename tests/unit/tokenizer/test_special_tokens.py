"""Special tokens outside ASCII: the same ids in every format, library and tool, or an error before training."""

from dataclasses import replace

import pyarrow as pa
import pytest
import tokenizers

import tokenmill
from tokenmill import Tokenizer
from tokenmill.errors import ConfigError, TokenizerError
from tokenmill.pipeline.extend import extend
from tokenmill.pipeline.verify import verify_dataset
from tokenmill.tokenizer.recipe import AddedToken
from tokenmill.vocab.trim import trim

TOKENS = [
    "<|끝|>", "<｜User｜>", "<｜end▁of▁sentence｜>", "▁x", "▁", "a b", "中", "日本", "한국어", "😀", "👨‍👩‍👧", "<|\n|>",
    "x\ty", "\xa0", "\xad", "\u3000", "ñ andú", "<|конец|>", "<|نهاية|>", "e\u0301", "<|ﬁ|>",
]  # fmt: skip
AMBIGUOUS = ["é", "<é>", "ñandú", "ß", "²", "Ł", "Ġx", "Ċ", "Ā", "Ã©"]
TEXTS = ["low lower lowest 한국어 é 中文 newest"] * 9


def train(*special, output=None):
    return tokenmill.train_from_iterator(
        TEXTS, 300, special_tokens=list(special), output=output, progress=False
    )


@pytest.fixture(scope="module")
def trained():
    return train(*TOKENS)


@pytest.fixture(scope="module")
def text():
    return "".join(f"low {token}lower {token}" for token in TOKENS)


@pytest.mark.parametrize("kind", ["hf", "tiktoken", "vocab-merges"])
@pytest.mark.parametrize("token", TOKENS)
def test_a_saved_tokenizer_loads_with_the_same_ids(token, kind, tmp_path):
    tokenizer = train(token)
    path = tmp_path / ("x.tiktoken" if kind == "tiktoken" else "x")
    if kind == "tiktoken" and "\n" in token:
        with pytest.raises(TokenizerError, match="save it as 'hf'"):
            tokenizer.save(path, kind)
        return
    tokenizer.save(path, kind)
    options = {"pattern": "gpt2", "special_tokens": {token: 0}} if kind == "tiktoken" else {}
    again = Tokenizer.load(path, **options)
    text = f"low {token}lower {token} {token[:1]}"
    assert again.encode(text) == tokenizer.encode(text)
    assert again.special_tokens == tokenizer.special_tokens == {token: 0}
    assert kind == "tiktoken" or again.fingerprint == tokenizer.fingerprint
    if kind == "hf":
        hf = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
        assert hf.encode(text).ids == tokenizer.encode(text)
        assert hf.decode(hf.encode(text).ids, skip_special_tokens=False) == again.decode(again.encode(text))


def test_other_libraries_objects_give_the_same_ids(trained, text):
    pytest.importorskip("transformers", exc_type=ImportError)
    ids = trained.encode(text)
    assert set(range(len(TOKENS))) <= set(ids)
    assert trained.as_hf()(text)["input_ids"] == ids
    assert trained.as_tiktoken().encode(text, allowed_special="all") == ids
    assert trained.decode_bytes(ids) == text.encode()


def test_extended_and_trimmed_tokenizers_load(trained, text, tmp_path):
    for name, change in (
        ("extended", lambda out: extend(trained, iter(["다른 말 다른 말"] * 9), add=4, output=out)),
        ("trimmed", lambda out: trim(trained, pa.array(TEXTS), size=290, output=out)),
    ):
        change(tmp_path / name)
        again = Tokenizer.load(tmp_path / name)
        assert set(again.special_tokens) == set(TOKENS), name
        assert again.decode_bytes(again.encode(text)) == text.encode(), name


def test_a_dataset_is_verified_with_its_own_tokenizer(tmp_path):
    train("<|끝|>", output=tmp_path / "tok")
    tokenmill.prepare(
        dataset=TEXTS, tokenizer=str(tmp_path / "tok"), output=str(tmp_path / "out"), verbose_level="ERROR"
    )
    assert {check.state for check in verify_dataset(tmp_path / "out")} <= {"ok", "skipped"}


@pytest.mark.parametrize("token", AMBIGUOUS)
def test_a_string_that_means_other_bytes_is_refused_before_training(token):
    with pytest.raises(ConfigError, match="vocabulary files write bytes as such letters"):
        train(token)


def test_a_token_that_a_file_cannot_tell_from_another_is_not_saved(trained, tmp_path):
    added = (*trained.recipe.added, AddedToken("é", 900))
    tokenizer = Tokenizer(replace(trained.recipe, added=added))
    for kind in ("hf", "vocab-merges"):
        with pytest.raises(TokenizerError, match="looks like the token"):
            tokenizer.save(tmp_path / "x", kind)
    assert list(tmp_path.iterdir()) == []
