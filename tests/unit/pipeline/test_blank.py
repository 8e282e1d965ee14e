"""A blank document is one that Python would call white space, over every character there is."""

import sys

import numpy as np
import pyarrow as pa

from tokenmill import _core
from tokenmill.base.texts import Texts


def found(texts):
    flat = Texts.from_arrow(pa.array(texts, pa.large_string()))
    return _core.blank_texts(flat.data, flat.offsets).tolist()


def test_every_character():
    points = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    assert found(points) == [point.isspace() for point in points]


def test_long_texts_and_slices():
    texts = ["", " " * 200 + "\u3000" * 200, " " * 200 + "x", "\u2003" * 63 + "é", "a" + " " * 500]
    assert found(texts) == [not text.strip() for text in texts]
    array = pa.array(["x", " ", "", "y"], pa.large_string()).slice(1, 2)
    flat = Texts.from_arrow(array)
    assert _core.blank_texts(flat.data, flat.offsets).tolist() == [True, True]
    assert _core.blank_texts(np.empty(0, np.uint8), np.zeros(1, np.int64)).tolist() == []
