"""The scanners against the regex path, and the regex path against Hugging Face's own steps."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers import pre_tokenizers as hf

from tokenmill import _core
from tokenmill.errors import TokenizerError

FAMILIES = [family.name for family in _core.families()]
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
    steps = _core.pre_tokenizer(family)
    assert _core.scan_pieces(steps, text) == _core.scan_pieces(steps, text, general=True)


BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def split(pattern, behavior, invert):
    return hf.Split(Regex(pattern), behavior, invert)


PATTERNS = [
    r"\s+", r"\d", r"[a-z]+|\p{N}{1,3}", r"'s|\p{L}+", r"x*", r"\p{N}{1,3}+", r"^\w|!$", r"(?<=a)Z", r"\w+",
    r"[^\w\s]", r"\W",
]  # fmt: skip
DIGITS = [hf.Digits(one) for one in (True, False)]
PUNCTUATION = [hf.Punctuation(behavior) for behavior in BEHAVIORS]
OTHERS = [hf.Whitespace(), hf.WhitespaceSplit()]
STEPS = (
    st.builds(split, st.sampled_from(PATTERNS), st.sampled_from(BEHAVIORS), st.booleans())
    | st.builds(hf.Split, st.sampled_from(["a", "  ", "'s", ""]), st.sampled_from(BEHAVIORS))
    | st.sampled_from(DIGITS + PUNCTUATION + OTHERS)
)


def pieces(step, text):
    """Ours, from the JSON that Hugging Face itself writes for the step."""
    return _core.scan_pieces(step.__getstate__().decode(), text)


@given(steps=st.lists(STEPS, min_size=1, max_size=3), text=TEXTS)
def test_a_chain_equals_hugging_face(steps, text):
    chain = hf.Sequence(steps)
    assert pieces(chain, text) == [piece for piece, _ in chain.pre_tokenize_str(text)]


def test_every_scalar_value_in_hugging_faces_digits_and_punctuation():
    scalars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for step in [DIGITS[0], PUNCTUATION[1], *OTHERS]:
        for begin in range(0, len(scalars), 1 << 15):
            text = "a".join(scalars[begin : begin + (1 << 15)])
            assert pieces(step, text) == [piece for piece, _ in step.pre_tokenize_str(text)], step


@pytest.mark.parametrize("pattern", ["[", r"(?<=a+", r"\p{Nonsense}", "(" * 300])
def test_a_pattern_that_does_not_compile_is_an_error(pattern):
    with pytest.raises(TokenizerError, match="pattern"):
        _core.scan_pieces(_core.regex_pre_tokenizer(pattern), "text")


def test_a_catastrophic_pattern_is_an_error_not_a_hang():
    with pytest.raises(TokenizerError, match="costly"):
        _core.scan_pieces(_core.pre_tokenizer(r"(x+x+)+(?<!zz)y"), "x" * 40)


@pytest.mark.parametrize(
    "family", [family for family in _core.families() if family.regex], ids=lambda f: f.name
)
def test_known_patterns_are_recognised_only_as_they_are(family):
    def found(regex):
        return _core.scan_family(_core.regex_pre_tokenizer(regex))

    assert found(family.regex) == family.name
    assert found(family.regex + "|x") == family.name, "nothing is left for the last alternative"
    assert found("x+|" + family.regex) == "chain"
