"""An input that changes while a unit reads it: no receipt, whatever the policy; put back, the job resumes."""

import json
import os
from pathlib import Path

import pytest

from byte_tokenizer import prepare_bytes
from tokenmill.errors import InputError

LINES = [json.dumps({"text": f"document {number} " * 20}) + "\n" for number in range(20_000)]
BEFORE = "".join(LINES).encode()


def overwrite(path):
    """The same size, other bytes."""
    path.write_bytes(BEFORE.replace(b"document", b"DOCUMENT"))


def truncate(path):
    os.truncate(path, len(BEFORE) // 2)


def append(path):
    with path.open("ab") as file:
        file.write(LINES[0].encode())


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize(
    "change", [overwrite, truncate, append, Path.unlink], ids=lambda change: change.__name__
)
def test_a_unit_of_a_file_that_changed_does_not_count(tmp_path, change, policy):
    path, output = tmp_path / "in.jsonl", tmp_path / "out"
    path.write_bytes(BEFORE)
    status, seen = path.stat(), []

    def keep(_text):
        seen.append(1)
        if len(seen) == 4000:  # in the middle of the one unit, with more to read
            change(path)
        return True

    def prepare():
        return prepare_bytes(path, output, keep=keep, on_error=policy, threads=1, text_field="text")

    with pytest.raises(InputError, match=r"changed|is gone"):
        prepare()
    assert not list((output / "receipts").glob("*.json"))
    assert not (output / "manifest.json").exists()
    path.write_bytes(BEFORE)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert prepare().manifest.documents == len(LINES)
