"""What the core takes for a tokenizer: one recipe, of which it refuses by name what it does not know."""

import json

import pytest

from tokenmill._core import Codec, Merges, Tokens
from tokenmill.errors import TokenizerError, UnsupportedError

TOKENS = Tokens([(bytes([byte]), byte) for byte in range(256)] + [(b"ab", 256)], "here")
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
MODEL = {
    "kind": "bytes",
    "ignore_merges": False,
    "byte_fallback": False,
    "fuse_unk": False,
    "unk_id": None,
    "end_of_word_suffix": "",
    "unreachable": [],
    "dropout": None,
    "continuing_subword_prefix": None,
}
RECIPE = {
    "model": MODEL,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": LEVEL,
    "post_processor": None,
}


def build(**changes):
    return Codec(json.dumps(RECIPE | changes), TOKENS, None)


def test_a_recipe_is_a_codec():
    codec = build()
    assert (codec.family, codec.spelled, codec.encode("ab a", "text", template=False)) == (
        "gpt2",
        False,
        [256, 32, 97],
    )
    by_merges = Codec(json.dumps(RECIPE), TOKENS, Merges([(97, 98)]))
    assert by_merges.encode("abab", "text", template=False) == [256, 256]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"prefix": "missing"}, "unknown field `prefix`"),
        ({"model": MODEL | {"suffix": True}}, "unknown field `suffix`"),
        ({"model": MODEL | {"kind": "words"}}, "unknown variant `words`"),
        ({"model": {"kind": "bytes"}}, "missing field `end_of_word_suffix`"),
        ({"added_tokens": [{"content": "x", "id": 1, "speciel": True}]}, "unknown field `speciel`"),
    ],
)
def test_an_unknown_key_or_value_is_refused_by_name(changes, named):
    with pytest.raises(TokenizerError, match=named) as raised:
        build(**changes)
    assert not isinstance(raised.value, UnsupportedError)


def steps(*before):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, LEVEL]}}


def template(*single):
    pieces = [{"SpecialToken": {"id": name, "type_id": 0}} for name in single[:-1]]
    sequence = [{"Sequence": {"id": "A", "type_id": 0}}] if single else []
    return {"post_processor": {"type": "TemplateProcessing", "single": pieces + sequence}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"normalizer": {"type": "BertNormalizer"}}, "the normalizer BertNormalizer$"),
        ({"normalizer": {"type": "NFC", "form": 2}}, r"the normalizer NFC \(unknown field `form`"),
        ({"normalizer": {"type": "Strip", "strip_left": "no"}}, r"the normalizer Strip \(invalid type"),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}}, "Replace of Regex"),
        ({"pre_tokenizer": None}, "without a ByteLevel step"),
        (steps(LEVEL), "several ByteLevel steps"),
        (steps("x"), r"the pre-tokenizer \? "),
        (steps({"type": "CharDelimiterSplit"}), "the pre-tokenizer CharDelimiterSplit$"),
        (steps({"type": "Punctuation", "behavior": "Odd"}), r"Punctuation \(unknown variant `Odd`"),
        ({"post_processor": {"type": "Other"}}, "the post-processor Other$"),
        (template(), "a template without exactly one sequence"),
        (template("<s>", "A"), 'a template with "<s>"'),
        ({"model": MODEL | {"dropout": 0.1}}, r"BPE dropout is 0\.1"),
        ({"model": MODEL | {"kind": "chars"}}, "the pre-tokenizer ByteLevel on a character-level model"),
    ],
)
def test_a_step_that_the_core_does_not_do_is_unsupported(changes, reason):
    with pytest.raises(UnsupportedError, match=reason):
        build(**changes)
