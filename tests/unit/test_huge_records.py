"""Records many times larger than a block."""

import json

import pytest

from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import read_blocks
from tokenmill.sources.model import InputFile, Range
from tokenmill.sources.raw import local_identity

LARGE = 1 << 16
GIANT = 'line one\n"quoted" back\\slash 한국어 😀 ' * 9000


def read(path, **settings):
    file = InputFile(str(path), path.stat().st_size, local_identity(path.stat()), "jsonl")
    part = Range("file", 0, file.size, file.size)
    config = SourceConfig(**settings)
    return list(read_blocks(file, part, config, block_bytes=4096, columns=()))


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("tail", [0, 40, 3000])
def test_texts_and_rows_of_large_records(tmp_path, ascii_only, tail):
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


def test_columns_and_bad_records_beside_large_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": GIANT, "id": 7}), json.dumps({"text": GIANT})[:-30]]
    lines += ['{"text": "' + "x" * 2 * LARGE + '\\ud800"}', json.dumps({"text": "ok", "id": 8})]
    path.write_text("\n".join(lines))
    blocks = read(path, on_error="skip", id_field="id")
    assert [name for block in blocks for name in block.ids.to_pylist()] == ["7", "8"]
    plain = read(path, on_error="skip")
    assert [len(text) for block in plain for text in block.texts.to_pylist()] == [len(GIANT), 2]
    assert [reject.reason for block in plain for reject in block.rejects] == ["broken_json", "lone_surrogate"]
    repaired = read(path, on_error="replace")
    assert [text[-1] for block in repaired for text in block.texts.to_pylist()] == [" ", "\ufffd", "k"]
