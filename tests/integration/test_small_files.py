"""Many small files: read together they give what they give one by one, whatever is wrong with some of them."""

import json

import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from tokenmill.errors import InputError
from tokenmill.pipeline import unit
from tokenmill.sources.read import SMALL

GOOD = [f"document {number}: {'텍스트 ' * (number % 7)}\r\nline\n".encode() for number in range(60)]
ODD = {
    3: b"",
    7: b"\xef\xbb\xbfwith a mark",
    11: b"not \xff text",
    12: b" \n\t ",
    20: b"large " * SMALL,
    31: b"again",
    32: b"again",
    59: b"cut off \xe2\x82",
}


def write(folder):
    folder.mkdir()
    for number, data in enumerate(GOOD):
        (folder / f"{number:03}.txt").write_bytes(ODD.get(number, data))


def prepare(folder, output, **options):
    return prepare_bytes(folder, output, **{"on_error": "skip", **options})


def receipts(output):
    return [json.loads(path.read_bytes()) for path in sorted((output / "receipts").iterdir())]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"on_error": "replace", "threads": 1},
        {"deduplicate": True, "min_chars": 6},
        {"batch_size": 3, "writer_batch_size": 5, "context_length": 16, "packing": "bestfit"},
        {"unit_bytes": 300, "validation": 0.3},
    ],
    ids=str,
)
def test_files_together_give_what_each_gives_alone(tmp_path, monkeypatch, options):
    write(tmp_path / "in")
    prepare(tmp_path / "in", tmp_path / "together", **options)
    monkeypatch.setattr(unit, "is_small", lambda *_: False)
    prepare(tmp_path / "in", tmp_path / "alone", **options)
    outputs = [
        (tmp_path / "together" / part, tmp_path / "alone" / part)
        for part in ("train", "validation", "")
        if (tmp_path / "alone" / part / "manifest.json").exists()
    ]
    assert outputs
    for together, alone in outputs:
        assert tokenmill.open(together).content_hash == tokenmill.open(alone).content_hash
        assert receipts(together) == receipts(alone)


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_small_file_that_changed_since_it_was_planned_does_not_count(tmp_path, monkeypatch, policy, gone):
    folder, output = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number, data in enumerate(GOOD):
        (folder / f"{number:03}.txt").write_bytes(data)
    together = unit.read_together

    def change(files):
        (folder / "005.txt").unlink() if gone else (folder / "005.txt").write_bytes(b"other bytes")
        return together(files)

    monkeypatch.setattr(unit, "read_together", change)
    with pytest.raises(InputError, match="gone" if gone else "changed"):
        prepare(folder, output, on_error=policy)
    assert not list((output / "receipts").glob("*.json"))
