"""A JSON line that is too long to hold comes in parts that make the text of the whole, or is refused as the whole is."""

import gzip
import itertools
import json
import subprocess
import sys

import pyarrow as pa
import pytest

from tokenmill.errors import InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import long_lines, read_blocks, windows
from tokenmill.sources.model import InputFile, Range
from tokenmill.sources.raw import local_identity

LONG = 1 << 14
GIANT = 'line one\n"quoted" back\\slash 한국어 😀 ' * 1500
PACK = {
    None: bytes,
    "gzip": gzip.compress,
    "zstd": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.fixture(autouse=True)
def _long_is_short(monkeypatch):
    monkeypatch.setattr(windows, "LONG", LONG)


def read(path, compression=None, *, parts=True, part=None, columns=(), **settings):
    size = path.stat().st_size
    file = InputFile(str(path), size, local_identity(path.stat()), "jsonl", compression)
    part = part or Range("file", 0, size, size)
    config = SourceConfig(**settings)
    return list(read_blocks(file, part, config, block_bytes=4096, columns=columns, parts=parts))


def documents(blocks):
    """The texts with parts joined, and their rows."""
    found, rows, open_text = [], [], ""
    for block in blocks:
        texts = block.texts.to_pylist()
        if block.goes_on:
            (text,) = texts
            open_text += text
            continue
        if open_text:
            texts[0] = open_text + texts[0]
            open_text = ""
        found += texts
        rows += list(block.rows)
    return found, rows


def lines(values, *, ascii_only):
    return b"".join(json.dumps(value, ensure_ascii=ascii_only).encode() + b"\n" for value in values)


@pytest.mark.parametrize("compression", PACK)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_parts_make_the_text_of_the_whole(tmp_path, compression, ascii_only):
    texts = ["small", GIANT, "between", GIANT[::-1], *(f"after {at}" for at in range(40))]
    path = tmp_path / "a.jsonl"
    plain = lines([{"text": text, "n": at} for at, text in enumerate(texts)], ascii_only=ascii_only)
    path.write_bytes(PACK[compression](plain))
    blocks = read(path, compression)
    assert documents(blocks) == (texts, list(range(len(texts))))
    assert max(block.texts.nbytes for block in blocks) <= 2 * LONG
    assert sum(block.goes_on for block in blocks) > 10
    assert sum(block.rows_read for block in blocks) == len(texts)
    assert sum(block.bytes_read for block in blocks) == len(plain)


def test_every_range_gives_its_own_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = ["first", GIANT, "second", GIANT[::-1], "third"]
    path.write_bytes(lines([{"text": text} for text in texts], ascii_only=True))
    size = path.stat().st_size
    for cuts in (2, 3, 7, 40):
        edges = [size * at // cuts for at in range(cuts + 1)]
        parts = [Range("bytes", a, b, b - a) for a, b in itertools.pairwise(edges)]
        assert [text for part in parts for text in documents(read(path, part=part))[0]] == texts


def test_ids_columns_and_templates_come_along(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines([{"t": "T", "text": GIANT, "id": "seven", "lang": "ko"}], ascii_only=True))
    blocks = read(path, id_field="id", columns=("lang",), template="{t}: {text}!")
    assert documents(blocks)[0] == [f"T: {GIANT}!"]
    assert {name for block in blocks for name in block.ids.to_pylist()} == {"seven"}
    assert {name for block in blocks for name in block.columns["lang"].strings().to_pylist()} == {"ko"}


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_bad_lines_are_refused_for_the_reason_of_the_whole(tmp_path, on_error):
    bad = [
        json.dumps({"text": GIANT})[:-30].encode(),
        b'{"text": "' + b"x" * 2 * LONG + b'\\ud800 and more"}',
        b'{"text": "' + b"x" * 2 * LONG + b'\xff and more"}',
        b'{"other": "' + b"x" * 2 * LONG + b'"}',
        b'{"text": 5, "other": "' + b"x" * 2 * LONG + b'"}',
        b" " * 2 * LONG,
        b'{"text": "' + b"x" * 2 * LONG + b'\\q"}',
        b"x" * 6 * LONG,
    ]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([b'{"text": "good"}', *bad, b'{"text": "also good"}']))
    settings = {"on_error": on_error, "max_record_bytes": 5 * LONG}
    expected, found = read(path, parts=False, **settings), read(path, **settings)
    assert documents(found) == documents(expected)
    for name in ("refused", "replaced"):
        total = [
            sorted((reason, count) for block in blocks for reason, count in getattr(block, name).items())
            for blocks in (expected, found)
        ]
        assert total[0] == total[1], name
    places = [[(r.reason, r.place) for b in blocks for r in b.rejects] for blocks in (expected, found)]
    assert places[0] == places[1]


def test_under_fail_nothing_is_given_of_a_bad_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps({"text": GIANT}).encode()[:-1] + b"]\n")
    with pytest.raises(InputError, match="JSON"):
        read(path)


def test_a_file_that_ends_within_a_line_is_truncated(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    packed = gzip.compress(lines([{"text": "good"}, {"text": GIANT}], ascii_only=True))
    path.write_bytes(packed[:-40])
    blocks = read(path, "gzip", on_error="skip")
    assert documents(blocks)[0] == ["good"]
    assert [reject.reason for block in blocks for reject in block.rejects] == ["truncated"]


def test_a_line_that_is_long_for_another_reason_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(long_lines, "MOST_OUTLINE", 1 << 12)
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines([{"n": list(range(9000)), "text": GIANT}, {"text": "b"}], ascii_only=True))
    assert documents(read(path)) == ([GIANT, "b"], [0, 1])


CHILD = """
import resource, sys, tokenmill
tokenmill.train(sys.argv[1], 300, progress=False, memory_budget="32MB", threads=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
def test_training_holds_a_few_blocks_of_a_document_of_any_size(tmp_path):
    words = "The quick brown fox jumps over the lazy dog, 12 times a day.\\n" * 16_000
    peaks = []
    for name, times in (("small", 1), ("large", 200)):
        path = tmp_path / f"{name}.jsonl"
        with path.open("w") as file:
            file.write('{"text": "')
            file.writelines(words for _ in range(times))
            file.write('"}\n')
        out = subprocess.run(
            [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
        )
        peaks.append(int(out.stdout))
    # The large one has 192 MiB of text.
    assert peaks[1] - peaks[0] < 110 << 10
