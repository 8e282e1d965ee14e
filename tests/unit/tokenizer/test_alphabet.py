"""The printable alphabet of bytes, one token at a time and many at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenmill.engine.files.alphabet import CHAR_OF, bytes_of, bytes_of_all, chars_of

CHARACTERS = st.one_of(st.sampled_from(sorted(CHAR_OF.values())), st.characters())


@given(st.lists(st.text(CHARACTERS, max_size=4), max_size=12))
def test_many_tokens_spell_what_each_one_spells(tokens):
    assert bytes_of_all(tokens) == [bytes_of(token) for token in tokens]


def test_every_byte_comes_back():
    every = bytes(range(256))
    assert bytes_of_all([chars_of(every), "", "\ud800", "a b", "\U0010ffff"]) == [
        every,
        b"",
        None,
        None,
        None,
    ]
