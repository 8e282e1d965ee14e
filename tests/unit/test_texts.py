"""Flat texts: slices, masks, and Arrow both ways."""

import numpy as np
import pyarrow as pa
import pytest

from tokenmill.base.texts import Texts

WORDS = ["one", "", "두 개", "three", "四"]


@pytest.fixture
def texts():
    return Texts.from_arrow(pa.array(["before", *WORDS, "after"], pa.large_string()).slice(1, len(WORDS)))


def test_what_there_is(texts):
    assert (len(texts), texts.nbytes) == (5, len("".join(WORDS).encode()))
    assert texts.to_pylist() == list(texts) == WORDS
    assert [texts[at] for at in range(5)] == WORDS
    assert (len(Texts()), Texts().nbytes, Texts().to_pylist()) == (0, 0, [])


def test_neighbours_share_memory(texts):
    some = texts.slice(1, 3)
    assert some.to_pylist() == WORDS[1:4]
    assert np.shares_memory(some.data, texts.data)
    assert texts.slice(3).to_pylist() == texts.slice(3, 99).to_pylist() == WORDS[3:]
    assert texts.slice(0, 0).to_pylist() == []


@pytest.mark.parametrize("kept", [0b00000, 0b11111, 0b10101, 0b01010, 0b00011])
def test_a_mask_keeps_some(texts, kept):
    mask = np.array([bool(kept >> at & 1) for at in range(5)])
    wanted = [word for word, keep in zip(WORDS, mask, strict=True) if keep]
    found = texts.filter(mask)
    assert found.to_pylist() == wanted
    assert texts.slice(1).filter(mask[1:]).to_pylist() == [word for word in wanted if word != "one"]


def test_arrow_both_ways(texts):
    array = texts.slice(1, 3).to_arrow()
    array.validate(full=True)
    assert array.to_pylist() == WORDS[1:4]
    assert Texts.from_arrow(array).to_pylist() == WORDS[1:4]
    assert Texts.from_arrow(pa.array([], pa.large_string())).to_pylist() == []
    assert Texts.from_arrow(pa.array(["", ""], pa.large_string())).to_pylist() == ["", ""]
