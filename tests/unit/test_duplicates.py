"""Duplicates across units, and units whose hashes were written elsewhere."""

import numpy as np
import pytest

from tokenmill.base.errors import DatasetError
from tokenmill.datasets.ledger.duplicates import Duplicates, HashWriter


def write_hashes(root, name, texts):
    data = "".join(texts).encode()
    offsets = np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.int64)
    writer = HashWriter(root, name)
    writer.write(offsets, np.frombuffer(data, np.uint8))
    writer.close()


def test_the_first_occurrence_is_kept_whatever_the_budget(tmp_path):
    write_hashes(tmp_path, "a", ["x", "y", "x"])
    write_hashes(tmp_path, "b", ["z", "y"])
    for budget in (1, 1 << 20):
        duplicates = Duplicates(tmp_path, ["a", "b"], budget)
        assert duplicates.find_in("a").tolist() == [False, False, True]
        assert duplicates.find_in("b").tolist() == [False, True]


def test_hashes_that_stayed_on_another_host_are_missed(tmp_path):
    write_hashes(tmp_path, "a", ["x"])
    with pytest.raises(DatasetError, match=r"1 of 2 units have no hashes .* b.* all hosts share"):
        Duplicates(tmp_path, ["a", "b"], 1 << 20)
