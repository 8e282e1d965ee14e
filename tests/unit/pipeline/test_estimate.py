"""What `plan` says: exact where everything was counted, a margin that is not nought where it was not."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small_tokenizers import write_bpe
from tokenmill.cli.plan import render
from tokenmill.pipeline.estimate import estimate
from tokenmill.report import doctor
from tokenmill.tokenizer.tokenizer import Tokenizer


@pytest.fixture
def inputs(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = (f"the {number} other documents in the mill " * 20 for number in range(300))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_a_small_corpus_is_counted_and_has_no_margin(inputs, tmp_path):
    told = estimate([str(inputs)], Tokenizer.load(write_bpe(tmp_path / "bpe")))
    assert told["margin_percent"] is None
    assert told["documents"] == 300
    assert "(all of it was counted)" in render(told)
    assert "±" not in render(told)


def test_compressed_parquet_is_measured_by_its_text(inputs, tmp_path):
    texts = [json.loads(line)["text"] for line in inputs.read_text().splitlines()]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": texts}), path, row_group_size=50, compression="zstd")
    size = sum(map(len, texts))
    assert path.stat().st_size < size / 4
    bpe = Tokenizer.load(write_bpe(tmp_path / "bpe"))
    told = estimate([str(path)], bpe)
    assert (told["documents"], told["text_bytes"], told["margin_percent"]) == (300, size, None)
    assert told["bytes_on_disk"] == path.stat().st_size
    assert told["tokens"] == estimate([str(inputs)], bpe)["tokens"]
    assert doctor.estimate_bytes((str(path),)) >= size * doctor.BYTES_PER_TEXT_BYTE


def test_a_size_that_is_assumed_is_not_counted(inputs, tmp_path):
    told = estimate([str(inputs)], Tokenizer.load(write_bpe(tmp_path / "bpe")), assume_size=10**9)
    assert told["text_bytes"] == 10**9
    assert told["margin_percent"] > 0
    assert "±" in render(told)
    assert "± 0.0 %" not in render(told | {"margin_percent": 0.01})
