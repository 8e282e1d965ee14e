"""Every format and compression gives the same documents, whatever the cut."""

import json
import logging
import os
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpus import COMPRESS, RECORDS, TEXTS, jsonl, write_format
from reading import read_all
from tokenmill.errors import ConfigError, InputError, InputNotFoundError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import discover, infer_fields


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "tsv", "parquet", "arrow", "feather", "arrows"])
@pytest.mark.parametrize(("unit_bytes", "block_bytes"), [(1 << 30, 1 << 20), (3000, 500)])
def test_every_format_gives_the_same_documents(tmp_path, kind, unit_bytes, block_bytes):
    path = write_format(tmp_path, kind)
    found = read_all(path, unit_bytes=unit_bytes, block_bytes=block_bytes, id_field="id")
    assert found.texts == TEXTS
    assert found.ids == [str(number) for number in range(200)]
    assert found.rows == list(range(200))
    cuttable = kind in {"jsonl", "parquet", "arrow", "feather"}
    assert (found.parts > 1) == (cuttable and unit_bytes == 3000)


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
@pytest.mark.parametrize("members", [1, 3])
def test_compressed_files_of_any_number_of_members(tmp_path, suffix, members):
    data = jsonl()
    cuts = [len(data) * at // members for at in range(members + 1)]
    parts = [COMPRESS[suffix](data[start:stop]) for start, stop in pairwise(cuts)]
    path = tmp_path / f"data.jsonl{suffix}"
    path.write_bytes(b"".join(parts))
    found = read_all(path, unit_bytes=100, block_bytes=777)
    assert found.texts == TEXTS
    assert found.parts == 1


def test_discovery_is_sorted_and_once(tmp_path):
    for name in (
        "b.jsonl",
        "sub/a.jsonl",
        "c.txt",
        ".hidden.jsonl",
        "notes.pdf",
        "sub/.git/x.jsonl",
        ".cache/y.jsonl",
        "deep/.cache/z.jsonl",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"text": "a"}\n')
    names = [
        os.path.relpath(file.url, tmp_path)
        for file in discover(SourceConfig(inputs=(str(tmp_path), str(tmp_path / "*.jsonl"))))
    ]
    assert names == ["b.jsonl", "c.txt", "sub/a.jsonl"]
    deep = discover(SourceConfig(inputs=(str(tmp_path / "**/*.jsonl"),)))
    assert [os.path.relpath(file.url, tmp_path) for file in deep] == ["b.jsonl", "sub/a.jsonl"]


@pytest.mark.parametrize("name", ["missing.jsonl", "*.nothing", ".", "*", "memory://none/*.jsonl"])
def test_nothing_found_is_an_error(tmp_path, monkeypatch, name):
    (tmp_path / "only-a-directory").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputNotFoundError):
        discover(SourceConfig(inputs=(name,)))


def test_text_modes(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\n\nthree")
    assert read_all(path).texts == ["one\r\ntwo\n\nthree"]
    assert read_all(path, txt_mode="line").texts == ["one", "two", "", "three"]
    assert read_all(path, document_separator="\n\n").texts == ["one\r\ntwo", "three"]
    path.write_text("one<|endoftext|>two\n<|endoftext|>")
    assert read_all(path).texts == ["one", "two\n"]
    (tmp_path / "empty.txt").write_bytes(b"")
    assert read_all(tmp_path / "empty.txt").texts == []


def test_a_template_over_fields(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"title": "T", "body": {"text": "B"}, "x": "{"}\n')
    assert read_all(path, template="{title}\n\n{{{body.text}}}").texts == ["T\n\n{B}"]
    pq.write_table(pa.table({"title": ["T", None], "body": ["B", "C"]}), tmp_path / "a.parquet")
    found = read_all(tmp_path / "a.parquet", template="# {title}\n{body}", on_error="skip")
    assert found.texts == ["# T\nB"]
    assert found.refused == {"missing_field": 1}


@pytest.mark.parametrize("template", ["none", "{}", "{a!r}", "{a:5}", "{a", "{a..b}"])
def test_a_bad_template_is_refused(template, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "T"}\n')
    with pytest.raises(ConfigError):
        read_all(path, template=template)


@pytest.mark.parametrize(
    ("record", "field", "template"),
    [
        ({"id": "1", "text": "a"}, "text", None),
        ({"content": "a", "url": "b"}, "content", None),
        ({"n": 1, "weird": "a"}, "weird", None),
        ({"prompt": "a", "response": "b"}, None, "{prompt}\n\n{response}"),
        ({"instruction": "a", "input": "", "output": "b"}, None, "{instruction}\n\n{output}"),
        ({"code": "", "input": "a", "output": "b"}, None, "{input}\n\n{output}"),
        ({"text": "a", "input": "a", "output": "b"}, "text", None),
    ],
)
def test_the_text_field_is_found(tmp_path, monkeypatch, caplog, record, field, template):
    monkeypatch.setattr(logging.getLogger("tokenmill"), "propagate", True)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record) + "\n")
    config = SourceConfig(inputs=(str(path),))
    settled, lines = infer_fields(config, discover(config))
    assert (settled.text_field, settled.template) == (field, template)
    assert any("Text:" in line for line in lines)
    assert ("could be it as well" in caplog.text) == ("code" in record or {"text", "input"} <= set(record))


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_the_text_field_is_found_in_a_line_longer_than_the_head(tmp_path, name):
    path = tmp_path / name
    path.write_text(json.dumps({"n": 1, "body": "long " * 300_000}) + "\n")
    config = SourceConfig(inputs=(str(path),))
    settled, _ = infer_fields(config, discover(config))
    assert settled.text_field == "body"
    assert [len(text) for text in read_all(path).texts] == [1_500_000]


def test_an_unclear_text_field_lists_the_fields(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"foo": "a", "bar": "b", "n": 1}\n')
    with pytest.raises(InputError, match="foo, bar, n; of strings: foo, bar"):
        read_all(path)


def test_json_lines_under_the_name_of_json(tmp_path):
    (tmp_path / "a.json").write_bytes(jsonl())
    config = SourceConfig(inputs=(str(tmp_path / "a.json"),))
    files = discover(config)
    assert files[0].format == "jsonl"
    assert any("contains JSON Lines" in line for line in infer_fields(config, files)[1])
    assert read_all(tmp_path / "a.json").texts == TEXTS
    keyed = {"a": RECORDS[1], "b": RECORDS[2]}
    for indent in (None, 1):
        (tmp_path / "b.json").write_text(json.dumps(keyed, indent=indent))
        assert read_all(tmp_path / "b.json", text_field="text").texts == TEXTS[1:3]
