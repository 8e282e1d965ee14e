"""The modules that replace rustbpe and tiktoken by one import each: equal to the originals."""

import pickle
from pathlib import Path

import pytest

from tokenmill.compat import rustbpe as ours
from tokenmill.compat import tiktoken as our_tiktoken

rustbpe = pytest.importorskip("rustbpe")
tiktoken = pytest.importorskip("tiktoken")
TEXT = "".join(
    page.read_text(encoding="utf-8") for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
)
PARTS = [TEXT[at : at + 5000] for at in range(0, len(TEXT), 5000)]
NANOCHAT = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"


@pytest.mark.parametrize("pattern", [None, NANOCHAT])
def test_the_vocabulary_is_rustbpes(pattern):
    trained = []
    for module in (rustbpe, ours):
        tokenizer = module.Tokenizer()
        tokenizer.train_from_iterator(iter(PARTS), 2000, pattern=pattern)
        trained.append(tokenizer)
    theirs, mine = trained
    assert mine.get_mergeable_ranks() == theirs.get_mergeable_ranks()
    assert mine.get_pattern() == theirs.get_pattern()
    assert mine.encode(PARTS[1]) == theirs.encode(PARTS[1])
    assert mine.decode(mine.encode(PARTS[0])) == PARTS[0]


def test_an_encoding_of_parts_is_tiktokens():
    tokenizer = ours.Tokenizer()
    tokenizer.train_from_iterator(iter(PARTS), 1000, pattern=NANOCHAT)
    ranks = dict(tokenizer.get_mergeable_ranks())
    parts = {
        "pat_str": NANOCHAT,
        "mergeable_ranks": ranks,
        "special_tokens": {"<|bos|>": len(ranks), "<|user_start|>": len(ranks) + 1},
    }
    mine, theirs = (module.Encoding("mine", **parts) for module in (our_tiktoken, tiktoken))
    text = f"<|bos|>{PARTS[1]}<|user_start|>"
    assert mine.encode(text, allowed_special="all") == theirs.encode(text, allowed_special="all")
    assert mine.encode_ordinary_batch(PARTS[:3]) == theirs.encode_ordinary_batch(PARTS[:3])
    assert (mine.n_vocab, mine.special_tokens_set) == (theirs.n_vocab, theirs.special_tokens_set)
    assert mine.encode_single_token("<|bos|>") == theirs.encode_single_token("<|bos|>")
    assert pickle.loads(pickle.dumps(mine)).encode_ordinary("again") == theirs.encode_ordinary("again")
    with pytest.raises(ValueError, match="explicit_n_vocab"):
        our_tiktoken.Encoding("mine", **parts, explicit_n_vocab=5)
