"""Duplicates across units, and units whose hashes were written elsewhere."""

import pyarrow as pa
import pytest

from tokenmill.base.texts import Texts
from tokenmill.datasets.ledger.selection import Duplicates, has_hashes, hashes_path, write_hashes
from tokenmill.errors import DatasetError


def make_blocks(*texts):
    return [Texts.from_arrow(pa.array(texts, pa.large_string()))] if texts else []


def test_hashes_that_stayed_on_another_host_are_missed(tmp_path):
    write_hashes(tmp_path, "a", make_blocks("x"))
    with pytest.raises(DatasetError, match=r"1 of 2 units have no hashes .* b.* all hosts share"):
        Duplicates(tmp_path, ["a", "b"], 1 << 20)


def test_hashes_that_changed_are_made_again_and_never_compared(tmp_path):
    write_hashes(tmp_path, "a", make_blocks("x", "y", "x"))
    path = hashes_path(tmp_path, "a")
    old = path.read_bytes()
    assert has_hashes(tmp_path, "a")
    for place in range(len(old)):
        path.write_bytes(old[:place] + bytes([old[place] ^ 1]) + old[place + 1 :])
        assert not has_hashes(tmp_path, "a"), place
    path.write_bytes(old[:20] + bytes([old[20] ^ 1]) + old[21:])
    with pytest.raises(DatasetError, match=r"does not match its checksum"):
        Duplicates(tmp_path, ["a"], 1 << 20)
    write_hashes(tmp_path, "empty", make_blocks())
    assert has_hashes(tmp_path, "empty")
