"""A record that outgrows a block many times over: alone in its window, unescaped where it stands."""

import io
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import columnar, read_blocks, windows
from tokenmill.sources.model import InputFile, Range
from tokenmill.sources.raw import local_identity

LARGE = 1 << 16
GIANT = 'line one\n"quoted" back\\slash 한국어 😀 ' * 9000


@pytest.fixture(autouse=True)
def _large_is_small(monkeypatch):
    monkeypatch.setattr(windows, "LARGE", LARGE)
    monkeypatch.setattr(columnar, "LARGE", LARGE, raising=False)


def test_what_arrow_decoded_a_huge_value_with_is_gone_when_its_block_comes(tmp_path):
    text, path = GIANT * 40, tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [text]}), path)
    file = InputFile(str(path), path.stat().st_size, local_identity(path.stat()), "parquet")
    before = pa.total_allocated_bytes()
    blocks = read_blocks(file, Range("groups", 0, 1, file.size), SourceConfig(), block_bytes=4096)
    block = next(blocks)
    assert pa.total_allocated_bytes() - before < 1.5 * len(text.encode())
    assert block.texts.to_pylist() == [text]


def read(path, **settings):
    file = InputFile(str(path), path.stat().st_size, local_identity(path.stat()), "jsonl")
    part = Range("file", 0, file.size, file.size)
    config = SourceConfig(**settings)
    return list(read_blocks(file, part, config, block_bytes=4096, columns=()))


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("tail", [0, 40, 3000])
def test_texts_and_rows_are_those_of_the_ordinary_way(tmp_path, ascii_only, tail):
    texts = ["small", GIANT, "between", GIANT[::-1], *(f"after {at}" for at in range(tail))]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}, ensure_ascii=ascii_only) + "\n" for text in texts))
    blocks = read(path)
    assert [text for block in blocks for text in block.texts.to_pylist()] == texts
    numbers, start = [], 0
    for block in blocks:
        numbers += block.rows.tolist()
        start += block.rows_read
    assert numbers == list(range(len(texts))) == list(range(start))
    assert sum(block.bytes_read for block in blocks) == path.stat().st_size


def test_columns_templates_and_bad_records_go_the_ordinary_way(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": GIANT, "id": 7}), json.dumps({"text": GIANT})[:-30]]
    lines += ['{"text": "' + "x" * 2 * LARGE + '\\ud800"}', json.dumps({"text": "ok", "id": 8})]
    path.write_text("\n".join(lines))
    blocks = read(path, on_error="skip", id_field="id")
    assert [name for block in blocks for name in block.ids.to_pylist()] == ["7", "8"]
    plain = read(path, on_error="skip")
    assert [len(text) for block in plain for text in block.texts.to_pylist()] == [len(GIANT), 2]
    assert [reject.reason for block in plain for reject in block.rejects] == ["broken_json", "lone_surrogate"]
    mended = read(path, on_error="replace")
    assert [text[-1] for block in mended for text in block.texts.to_pylist()] == [" ", "\ufffd", "k"]


def test_little_of_what_follows_is_held_with_a_huge_record():
    data = b"x" * (5 * LARGE) + b"\n" + b"y\n" * (4 * LARGE)
    seen = []

    def look(window):
        seen.append((len(window.data), window.given))
        return bytes(window.data)

    cut = windows.Cut(0, None, b"\n", 4096, 1 << 30)
    stream = SimpleNamespace(readinto=io.BytesIO(data).readinto)
    assert b"".join(windows.read_windows(stream, cut, look)) == data
    assert seen[0] == (5 * LARGE + 1, True)
    assert max(size for size, _ in seen[1:]) <= LARGE
    assert not any(given for _, given in seen[1:])
