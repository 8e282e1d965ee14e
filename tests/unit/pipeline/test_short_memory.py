"""A batch that does not fit is halved; the result does not tell."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from tokenmill.jobs.units.short_memory import encode_batch


class Narrow:
    """Has room for so many documents at a time."""

    def __init__(self, room):
        self.room = room
        self.sizes = []

    def encode_batch(self, texts, *, special, threads):
        self.sizes.append(len(texts))
        if len(texts) > self.room:
            raise MemoryError
        rows = [[ord(letter) for letter in text.as_py()] for text in texts]
        ids = np.array([token for row in rows for token in row], np.uint16)
        return SimpleNamespace(ids=ids, offsets=np.cumsum([0, *map(len, rows)]))


def test_halved_until_it_fits_and_nothing_is_lost():
    texts = pa.array([f"document {number}" * (number % 3) for number in range(23)])
    wide, narrow = Narrow(100), Narrow(3)
    expected = encode_batch(wide, texts, special="text", threads=1)
    found = encode_batch(narrow, texts, special="text", threads=1)
    assert wide.sizes == [23]
    assert narrow.sizes[:4] == [23, 11, 5, 2]
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_single_document_that_does_not_fit_is_an_error():
    with pytest.raises(MemoryError):
        encode_batch(Narrow(0), pa.array(["a", "b"]), special="text", threads=1)
