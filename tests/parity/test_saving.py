"""Real vocabularies through every format that can hold them: the ids stay the same, here and in HF."""

import pytest
from tokenizers import Tokenizer as HF
from torture import texts
from vocabularies import case

from tokenmill import Tokenizer, TokenmillError

DOCS = texts()[::3]
# HF takes half a minute to read every split of these.
SLOW = ["cl100k_base", "o200k_base", "qwen", "tekken", "deepseek-v3"]


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


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("cl100k_base", "cl100k"), ("qwen", "qwen2"), ("tekken", "tekken"), ("gpt2", "gpt2")],
)
def test_tiktoken_round_trip(name, pattern, tmp_path):
    tokenizer, _ = case(name)
    path = tmp_path / "saved.tiktoken"
    tokenizer.save(path, "tiktoken")
    again = Tokenizer.load(path, pattern=pattern, special_tokens=tokenizer.special_tokens)
    assert again.encode_batch(DOCS) == tokenizer.encode_batch(DOCS)


def test_vocab_merges_round_trip(tmp_path):
    tokenizer, _ = case("gpt2")
    tokenizer.save(tmp_path, "vocab-merges")
    again = Tokenizer.load(tmp_path)
    assert again.encode_batch(DOCS) == tokenizer.encode_batch(DOCS)
    assert again.special_tokens == tokenizer.special_tokens


def test_a_format_that_cannot_hold_a_tokenizer_says_so(tmp_path):
    for name, kind in [
        ("cl100k_base", "vocab-merges"),
        ("cl100k_base", "minbpe"),
        ("mistral-v1", "tiktoken"),
        ("deepseek-v3", "minbpe"),
    ]:
        with pytest.raises(TokenmillError, match="save it as"):
            case(name)[0].save(tmp_path / "x", kind)


@pytest.mark.parametrize("kind", ["tiktoken", "vocab-merges", "minbpe"])
def test_steps_that_no_pattern_says_are_refused(kind, tmp_path):
    """Falcon's splits after ByteLevel: no plain format can hold them, so none may write another tokenizer."""
    from configurations import built

    with pytest.raises(TokenmillError, match="save it as 'hf'"):
        Tokenizer.load(built("falcon")).save(tmp_path / "x", kind)
    assert list(tmp_path.iterdir()) == []
