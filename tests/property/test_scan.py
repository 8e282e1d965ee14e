"""The scanners against the regex path, and the regex path against Hugging Face's own steps."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers import pre_tokenizers as hf

from tokenmill import _core
from tokenmill.base.errors import TokenizerError

FAMILIES = [
    "gpt2",
    "starcoder",
    "cl100k",
    "cl100k-tiktoken",
    "qwen2",
    "qwen3.5",
    "o200k",
    "tekken",
    "kimi-k2",
    "deepseek-v3",
]
LIVELY = (
    "aZ²\u200céÉǅʰ中あ・ー한א5٣〇⺀ \t\r\n\u00a0\u3000!'/+，€\u0301\u3099\u0001\u200d\u0378😀sStTlLvVrReEſ"
)
TEXTS = st.text(st.sampled_from(LIVELY) | st.characters(codec="utf-8"), max_size=80)
LONG = st.lists(st.tuples(st.sampled_from(LIVELY), st.integers(1, 150)), max_size=30).map(
    lambda runs: "".join(character * count for character, count in runs)
)


@pytest.mark.parametrize("family", FAMILIES)
@given(text=TEXTS | LONG)
@example(text="")
@example(text="don't'S 'll\n\n  x")
def test_a_scanner_equals_its_regex(family, text):
    assert _core.scan_pieces(family, text) == _core.scan_pieces(family, text, general=True)


NAMES = {
    "removed": "Removed",
    "isolated": "Isolated",
    "merged_with_previous": "MergedWithPrevious",
    "merged_with_next": "MergedWithNext",
    "contiguous": "Contiguous",
}
BEHAVIORS = list(NAMES)


def split(pattern, behavior, invert):
    """Our step and Hugging Face's for the same split."""
    return ("split", pattern, NAMES[behavior], invert), hf.Split(Regex(pattern), behavior, invert)


def literal(text, behavior):
    """The same for a split at a string."""
    return ("literal", text, NAMES[behavior], False), hf.Split(text, behavior)


PATTERNS = [
    r"\s+",
    r"\d",
    r"[a-z]+|\p{N}{1,3}",
    r"'s|\p{L}+",
    r"x*",
    r"\p{N}{1,3}+",
    r"^\w|!$",
    r"(?<=a)Z",
    r"\w+",
    r"[^\w\s]",
    r"\W",
    r"[[:punct:]]",
]
DIGITS = [(("digits", "", "", one), hf.Digits(one)) for one in (True, False)]
PUNCTUATION = [(("punctuation", "", NAMES[b], False), hf.Punctuation(b)) for b in BEHAVIORS]
OTHERS = [
    (("whitespace", "", "", False), hf.Whitespace()),
    (("whitespace_split", "", "", False), hf.WhitespaceSplit()),
    (("byte_level", "", "", True), hf.Split(Regex(_core.pattern_steps("gpt2")[0][1]), "isolated")),
]
STEPS = (
    st.builds(split, st.sampled_from(PATTERNS), st.sampled_from(BEHAVIORS), st.booleans())
    | st.builds(literal, st.sampled_from(["a", "  ", "'s", ""]), st.sampled_from(BEHAVIORS))
    | st.sampled_from(DIGITS + PUNCTUATION + OTHERS)
)


@given(steps=st.lists(STEPS, min_size=1, max_size=3), text=TEXTS)
def test_a_chain_equals_hugging_face(steps, text):
    ours, theirs = zip(*steps, strict=True)
    expected = [piece for piece, _ in hf.Sequence(list(theirs)).pre_tokenize_str(text)]
    assert _core.scan_pieces(list(ours), text) == expected


def test_every_scalar_value_in_hugging_faces_digits_and_punctuation():
    scalars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for ours, theirs in [DIGITS[0], PUNCTUATION[1], *OTHERS[:2]]:
        for begin in range(0, len(scalars), 1 << 15):
            text = "a".join(scalars[begin : begin + (1 << 15)])
            expected = [piece for piece, _ in theirs.pre_tokenize_str(text)]
            assert _core.scan_pieces([ours], text) == expected, ours


@pytest.mark.parametrize("pattern", ["[", r"(?<=a+", r"\p{Nonsense}", "(" * 300])
def test_a_pattern_that_does_not_compile_is_an_error(pattern):
    with pytest.raises(TokenizerError, match="pattern"):
        _core.scan_pieces(pattern, "text")


def test_a_catastrophic_pattern_is_an_error_not_a_hang():
    with pytest.raises(TokenizerError, match="costly"):
        _core.scan_pieces(r"(x+x+)+(?<!z)y", "x" * 40)


def test_known_patterns_are_recognised_only_as_they_are():
    for name in FAMILIES:
        steps = _core.pattern_steps(name)
        if len(steps) == 1:
            assert _core.scan_family(steps[0][1]) == name
            assert _core.scan_family(steps[0][1] + "|x") == "chain"
            assert _core.scan_family(steps[0][1].replace(r"\s+(?!\S)", r"\s+(?=\s)")) == "chain"
