"""Strings of every width and kind are read where Python keeps them, and give the ids of their UTF-8."""

import sys

import pytest

import tokenmill


class Named(str):
    """Python keeps the characters of such a string elsewhere."""

    __slots__ = ()


@pytest.mark.parametrize(
    "text", ["", "plain", "déjà vu", "방앗간이 돈다", "磨坊🌾 turns", "é" * 1000, "가" * 1000]
)
def test_a_string_gives_the_ids_of_its_utf8_however_python_keeps_it(text):
    tokenizer = tokenmill.train(
        iter(["déjà vu 방앗간이 돈다 磨坊在转 the mill turns"] * 9), 300, progress=False
    )
    ids = tokenizer.encode(text.encode())
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode(Named(text)) == ids
    assert [list(found) for found in tokenizer.encode_batch([text, Named(text)])] == [ids, ids]


@pytest.mark.parametrize("kind", [str, Named])
def test_a_lone_surrogate_is_refused_in_every_kind_of_string(kind):
    tokenizer = tokenmill.train(iter(["the mill turns"] * 9), 260, progress=False)
    for call in (tokenizer.encode, lambda text: tokenizer.encode_batch([text])):
        with pytest.raises(tokenmill.InputError, match="lone surrogate"):
            call(kind("방앗간 \ud800"))


@pytest.mark.parametrize("word", ["é", "방앗간", "🌾磨"])
def test_nothing_stays_behind_in_a_string(word):
    """Python's own way to UTF-8 keeps a copy in the string: none means that we read it where it lies."""
    tokenizer = tokenmill.train(iter(["the mill turns"] * 9), 260, progress=False)
    text = word * 1000
    before = sys.getsizeof(text)
    tokenizer.encode(text)
    tokenizer.encode_batch([text])
    assert sys.getsizeof(text) == before
