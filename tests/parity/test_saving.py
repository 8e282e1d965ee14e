"""Real vocabularies through every format that can hold them: the ids stay the same, here and in HF."""

import warnings

import pytest
from configurations import NATIVE, built
from tokenizers import Tokenizer as HF
from tokenizers import models, pre_tokenizers
from torture import texts
from vocabularies import NAMES, case

from tokenmill import Tokenizer, TokenmillError
from tokenmill._core import spell
from tokenmill.tokenizer.recipe import find_pattern

DOCS = texts()[::5]
# HF takes half a minute to read every split of these.
SLOW = ["cl100k_base", "o200k_base", "qwen", "tekken", "deepseek-v3"]


@pytest.mark.filterwarnings("ignore:.*user-defined pieces")
@pytest.mark.parametrize(
    "name", ["gpt2", "qwen3.6", "mistral-v3", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_hf_reads_what_we_save(name, tmp_path):
    tokenizer, _ = case(name)
    tokenizer.save(tmp_path, "hf")
    want = tokenizer.encode_batch(DOCS, special="text").to_lists()
    hf = HF.from_file(str(tmp_path / "tokenizer.json"))
    hf.encode_special_tokens = True
    theirs = [encoding.ids for encoding in hf.encode_batch(DOCS, add_special_tokens=False)]
    assert [row for row in zip(DOCS, want, theirs, strict=True) if row[1] != row[2]][:3] == []
    again = Tokenizer.load(tmp_path)
    assert again.strategy.name == "native"
    assert again.special_tokens == tokenizer.special_tokens
    assert {token: hf.token_to_id(token) for token in again.special_tokens} == again.special_tokens
    assert again.encode_batch(DOCS) == tokenizer.encode_batch(DOCS)


def again(path, kind, tokenizer):
    """What loads from a saved file, with what docs/tokenizer.md says that a format does not hold."""
    if kind != "tiktoken":
        return Tokenizer.load(path)
    pattern = find_pattern(tokenizer.recipe.pre_tokenizer)
    return Tokenizer.load(path, pattern=pattern, special_tokens=tokenizer.special_tokens)


def assert_saved_or_refused(tokenizer, kind, place, docs=DOCS):
    path = place / ("x.tiktoken" if kind == "tiktoken" else "x.model" if kind == "minbpe" else "x")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            tokenizer.save(path, kind)
        except TokenmillError as refusal:
            assert "save it as" in str(refusal)  # noqa: PT017
            assert not path.exists()
            return False
    loaded = again(path, kind, tokenizer)
    for special in ("parse", "text"):
        want = tokenizer.encode_batch(docs, special=special).to_lists()
        got = loaded.encode_batch(docs, special=special).to_lists()
        assert [row for row in zip(docs, got, want, strict=True) if row[1] != row[2]][:3] == []
    assert loaded.added_tokens == tokenizer.added_tokens
    if not any("add_special_tokens" in str(warning.message) for warning in told):
        around = {"special": "parse", "add_special_tokens": True}
        assert loaded.encode_batch(docs, **around) == tokenizer.encode_batch(docs, **around)
    sample = tokenizer.encode_batch(docs[:300]).to_lists()
    if kind == "hf":
        assert loaded.decode_batch(sample) == tokenizer.decode_batch(sample)
    return True


FORMATS = ["hf", "tiktoken", "vocab-merges", "minbpe"]
SPECIAL = ["a<|endoftext|>b", "<s>x</s>", "[INST] y [/INST]", " <|endoftext|> ", "<|fim_prefix|>x"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]
)
def test_every_vocabulary_in_every_format(name, kind, tmp_path):
    tokenizer, _ = case(name)
    saved = assert_saved_or_refused(tokenizer, kind, tmp_path, [*DOCS[::3], *SPECIAL])
    assert saved or kind != "hf"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", [*NATIVE, "posix"])
def test_every_shape_in_every_format(name, kind, tmp_path):
    saved = assert_saved_or_refused(Tokenizer.load(built(name)), kind, tmp_path, [*DOCS[::9], *SPECIAL])
    assert saved or kind != "hf"


def test_merges_that_ranks_do_not_give(tmp_path):
    """`abc` is made of `a` and `bc`, but by rank `ab` comes first: a .tiktoken file would be another tokenizer."""
    vocabulary = {spell(bytes([byte])): byte for byte in range(256)} | {"ab": 256, "bc": 257, "abc": 258}
    hf = HF(models.BPE(vocabulary, [("a", "b"), ("b", "c"), ("a", "bc")]))
    hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer.load(hf)
    assert not assert_saved_or_refused(tokenizer, "tiktoken", tmp_path, ["abc"])
    assert assert_saved_or_refused(tokenizer, "minbpe", tmp_path, ["abc", "ab bc"])
    assert assert_saved_or_refused(tokenizer, "vocab-merges", tmp_path, ["abc", "ab bc"])


def test_transformers_finds_special_tokens_beside_vocab_and_merges(tmp_path):
    from transformers import GPT2Tokenizer

    tokenizer = Tokenizer.load(built("gpt2"), special_tokens={"<|im_start|>": 900, "<|im_end|>": 901})
    tokenizer.save(tmp_path, "vocab-merges")
    theirs = GPT2Tokenizer.from_pretrained(str(tmp_path))
    text = "a<|im_start|>b <|im_end|>"
    assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer.encode(text)
    assert Tokenizer.load(tmp_path).special_tokens == tokenizer.special_tokens


@pytest.mark.parametrize("kind", ["tiktoken", "vocab-merges", "minbpe"])
def test_steps_that_no_pattern_says_are_refused(kind, tmp_path):
    """Falcon's splits after ByteLevel: no plain format can hold them, so none may write another tokenizer."""
    with pytest.raises(TokenmillError, match="save it as 'hf'"):
        Tokenizer.load(built("falcon")).save(tmp_path / "x", kind)
    assert list(tmp_path.iterdir()) == []
