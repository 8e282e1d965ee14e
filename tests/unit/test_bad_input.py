"""One bad record is one bad record, one bad file is one bad file, and both are named."""

import gzip
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus import COMPRESS, TEXTS, jsonl, write_format, zstd_compress
from reading import read_all
from tokenmill.errors import InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import discover, infer_fields
from tokenmill.sources.memory import attach


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
@pytest.mark.parametrize("missing", [1, 9, 200])
def test_a_truncated_file_is_told_and_what_came_before_is_kept(tmp_path, suffix, missing):
    whole = COMPRESS[suffix](jsonl())
    path = tmp_path / f"data.jsonl{suffix}"
    path.write_bytes(COMPRESS[suffix](jsonl()) + whole[:-missing])
    with pytest.raises(
        InputError, match=r"data\.jsonl\.\w+:\d+: a file that (ends too early|cannot be decoded)"
    ):
        read_all(path)
    found = read_all(path, on_error="skip", block_bytes=2000)
    assert found.texts[:200] == TEXTS
    assert set(found.refused) <= {"truncated", "damaged", "broken_json"}
    assert found.refused["truncated"] + found.refused["damaged"] == 1


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_garbage_behind_a_member_is_damage(tmp_path, suffix):
    path = tmp_path / f"data.jsonl{suffix}"
    path.write_bytes(COMPRESS[suffix](jsonl()) + b"garbage")
    with pytest.raises(InputError, match="cannot be decoded further"):
        read_all(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", gzip.compress(b"{}", mtime=0), "should be jsonl by its name, but contains gzip"),
        ("a.jsonl.gz", b'{"text": "a"}\n', "should be gzip by its name, but contains bytes"),
        ("a.jsonl.gz", zstd_compress(b"{}"), "should be gzip by its name, but contains zstd"),
        ("a.parquet", b"hello", "should be parquet by its name, but contains bytes"),
        ("a.txt", b"PAR1hello", "should be txt by its name, but contains parquet"),
        ("a.txt", "é".encode("utf-16"), "UTF-16"),
        ("a.jsonl.gz", b"", "an empty file"),
    ],
)
def test_a_wrong_name_is_noticed(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_all(path)


def test_under_skip_the_content_decides_and_a_note_says_so(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n'))
    config = SourceConfig(inputs=(str(path),), on_error="skip")
    files = discover(config)
    assert files[0].compression == "gzip"
    assert any("contains gzip" in line for line in infer_fields(config, files)[1])
    assert read_all(path, on_error="skip").texts == ["a"]


def test_no_permission_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl())
    path.chmod(0)
    found = discovered_by_a_plain_user(path)
    assert found.startswith(f"FileFaultError: {path}")
    assert "permission" in found
    assert discovered_by_a_plain_user(path, on_error="skip") == "found 1"


PLAIN_USER = """
import os, sys
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import discover
SourceConfig(inputs=(sys.argv[1],))  # imports what this user may not read
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print("found", len(discover(SourceConfig(inputs=(sys.argv[1],), on_error=sys.argv[2]))))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def discovered_by_a_plain_user(path, on_error="fail"):
    """What `discover` reports without permission to read everything; root has it, so a child drops it."""
    for place in path.parents:
        if place.stat().st_uid == os.getuid() and not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o011)
    command = [sys.executable, "-c", PLAIN_USER, str(path), on_error]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_folder_that_cannot_be_listed_ends_the_job(tmp_path, policy):
    (tmp_path / "shut").mkdir(mode=0)
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    tmp_path.chmod(0o755)
    found = discovered_by_a_plain_user(tmp_path, policy)
    assert found.startswith(f"InputError: {tmp_path / 'shut'}")


def test_a_bad_item_of_an_iterable_is_one_bad_item():
    with attach(["a", 5, {"text": "\ud800"}, {"x": 1}, {"text": "b"}]) as files:
        found = read_all(files=files, on_error="skip", text_field="text")
    assert found.texts == ["a", "b"]
    assert found.refused == {"not_an_object": 1, "lone_surrogate": 1, "missing_field": 1}


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_structured_file_that_breaks_off(tmp_path, kind):
    whole = write_format(tmp_path, kind).read_bytes()
    path = tmp_path / f"cut.{kind}.gz"
    path.write_bytes(gzip.compress(whole)[:-100])
    found = read_all(path, on_error="skip", block_bytes=700)
    assert found.texts == TEXTS[: len(found.texts)]
    assert found.refused == {"truncated": 1}
    assert read_all(path, on_error="skip").texts == found.texts
    if kind == "json":
        (tmp_path / "half.json").write_bytes(whole[: len(whole) // 2])
        half = read_all(tmp_path / "half.json", on_error="skip", block_bytes=700)
        assert half.texts == TEXTS[: len(half.texts)]
        assert set(half.refused) <= {"truncated", "damaged"}
        with pytest.raises(InputError, match="JSON value"):
            read_all(tmp_path / "half.json")


def test_an_over_long_record_is_passed_over_in_little_memory(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' + json.dumps({"text": "x" * 100_000}) + '\n{"text": "b"}\n')
    for block_bytes in (64, 1 << 20):
        found = read_all(path, max_record_bytes=1000, on_error="skip", block_bytes=block_bytes)
        assert found.texts == ["a", "b"]
        assert found.rows == [0, 2]
        assert found.refused == {"over_long": 1}
        assert found.rejects[0].place == f"{path}:2:14"
    assert read_all(path, block_bytes=64).texts[1] == "x" * 100_000
    path.with_suffix(".txt").write_text("x" * 5000)
    assert read_all(
        path.with_suffix(".txt"), max_record_bytes=1000, on_error="skip", block_bytes=64
    ).refused == {"over_long": 1}


def test_a_place_has_the_line_of_the_whole_file(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [b'{"text": "a"}'] * 50
    lines[30] = b"{broken"
    path.write_bytes(b"\n".join(lines))
    for unit_bytes in (1 << 20, 100, 33):
        found = read_all(path, on_error="skip", unit_bytes=unit_bytes)
        assert [reject.place.rpartition("/")[2] for reject in found.rejects] == [f"a.jsonl:31:{30 * 14 + 1}"]
    with pytest.raises(InputError, match=r"a\.jsonl:31:421: broken JSON: '\{broken'"):
        read_all(path, unit_bytes=33)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_place_has_the_row_of_the_whole_file(tmp_path, kind):
    table = pa.table({"text": ["ok"] * 70 + [None] + ["ok"] * 29})
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=10)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
    found = read_all(path, on_error="skip", unit_bytes=1)
    assert found.parts == 10
    assert [reject.place for reject in found.rejects] == [f"{path}:71:0"]
    with attach(table) as files:
        found = read_all(files=files, on_error="skip", unit_bytes=20)
    assert found.rejects[0].place.endswith(":71:0")


def test_strings_of_columnar_files_are_checked(tmp_path):
    bad = pa.array([b"ok", b"b\xffd", None, b"x" * 50], pa.binary())
    pq.write_table(pa.table({"text": bad}), tmp_path / "a.parquet")
    found = read_all(tmp_path / "a.parquet", on_error="skip", text_field="text", max_record_bytes=40)
    assert found.texts == ["ok"]
    assert found.refused == {"invalid_utf8": 1, "missing_field": 1, "over_long": 1}
    repaired = read_all(tmp_path / "a.parquet", on_error="replace", text_field="text")
    assert repaired.texts == ["ok", "b\ufffdd", "x" * 50]
    assert repaired.replaced == {"invalid_utf8": 1}
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="column 'text' is int64"):
        read_all(tmp_path / "b.parquet", text_field="text")
    with pytest.raises(InputError, match="no column 'body'; it has text"):
        read_all(tmp_path / "b.parquet", text_field="body")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_a_damaged_columnar_file_is_named(tmp_path, kind):
    whole = write_format(tmp_path, kind).read_bytes()
    path = tmp_path / f"cut.{kind}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=rf"cut\.{kind}:\d+: a file that cannot be decoded"):
        read_all(path, text_field="text")


def test_under_skip_a_bad_file_is_one_reject_among_good_files(tmp_path):
    write_format(tmp_path, "parquet")
    (tmp_path / "a_bad.parquet").write_bytes(b"PAR1" + b"x" * 100)
    found = read_all(tmp_path, on_error="skip")
    assert found.texts == TEXTS
    assert found.refused == {"damaged": 1}
    assert "a_bad.parquet" in found.rejects[0].place
    with pytest.raises(InputError, match="a_bad"):
        read_all(tmp_path)
