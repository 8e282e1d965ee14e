"""What a user must not learn too late: no tokens, no separators, no comparison, and how much there is to do."""

import json
import logging
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from small_tokenizers import write_bpe, write_word_piece
from tokenmill.errors import DatasetError

TEXTS = ["the other day", "documents in the mill", "x" * 50]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 40))
    return path


@pytest.fixture
def prepare(corpus, tmp_path, caplog):
    """Prepares, and gives the warnings and the other lines of the job."""

    def run(tokenizer, **options):
        logging.getLogger("tokenmill").propagate = True
        caplog.clear()
        with caplog.at_level(logging.INFO, "tokenmill"):
            tokenmill.prepare(
                inputs=str(options.pop("inputs", corpus)),
                tokenizer=tokenizer,
                output=str(tmp_path / f"out-{len(list(tmp_path.iterdir()))}"),
                show_progress=False,
                **options,
            )
        told = [(record.levelno, record.getMessage()) for record in caplog.records]
        warnings = [line for level, line in told if level >= logging.WARNING and "RAM" not in line]
        return warnings, [line for level, line in told if level == logging.INFO]

    return run


def without_eos(directory):
    path = write_bpe(directory) / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"added_tokens": []}))
    return directory


def finds_nothing(directory):
    path = write_bpe(directory) / "tokenizer.json"
    split = {"type": "Split", "pattern": {"Regex": "gtp2"}, "behavior": "Removed", "invert": True}
    steps = [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    path.write_text(
        json.dumps(
            json.loads(path.read_text()) | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}}
        )
    )
    return directory


def test_documents_without_a_token_are_an_error(prepare, tmp_path):
    tokenizer = finds_nothing(tmp_path / "tokenizer")
    with pytest.raises(DatasetError, match="120 documents produced no tokens"):
        prepare(tokenizer)
    assert not list(tmp_path.glob("out-*/manifest.json"))


def test_documents_that_are_all_blank_are_an_error(prepare, tmp_path):
    blank = tmp_path / "blank.jsonl"
    blank.write_text('{"text": ""}\n{"text": "  "}\n')
    with pytest.raises(DatasetError, match=r"2 documents produced no tokens .2 are blank.*`text_field`"):
        prepare(write_bpe(tmp_path / "tokenizer"), inputs=blank)
    assert not list(tmp_path.glob("out-*/manifest.json"))


def test_filters_that_leave_nothing_are_a_warning_with_the_reasons(prepare, tmp_path):
    warnings, _ = prepare(write_bpe(tmp_path / "tokenizer"), min_chars=1000)
    assert warnings[-1] == "The dataset is empty: 120 documents were read"


def test_documents_that_nothing_separates_are_a_warning_with_the_remedy(prepare, tmp_path):
    tokenizer = without_eos(tmp_path / "tokenizer")
    (warning,), _ = prepare(tokenizer)
    assert warning.startswith("Nothing separates documents")
    assert "Give `eos` to add one, or `eos=False`" in warning
    for meant in ({"eos": False}, {"bos": 65}, {"mode": "pad", "context_length": 64, "pad_token": 0}):
        assert prepare(tokenizer, **meant)[0] == []


def test_a_comparison_that_is_not_made_says_why(prepare, tmp_path, monkeypatch):
    bpe = write_bpe(tmp_path / "bpe")
    (warning,), _ = prepare(bpe, parity_check=False)
    assert (
        warning == "Parity check skipped: parity_check is false, so native is not compared with Hugging Face"
    )
    for other in (write_word_piece(tmp_path / "words"), ByteTokenizer()):
        warnings, lines = prepare(other, eos=False)
        assert warnings == []
        assert any(line.startswith("Parity check skipped: the tokenizer's own code") for line in lines)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (warning,), _ = prepare(bpe)
    assert warning.startswith("Parity check skipped: ")
    assert "pip install" in warning


def test_how_many_examples_there_are(prepare, tmp_path):
    _, lines = prepare(ByteTokenizer())
    assert "Tokenizing split 'train' with 120 examples" in lines
    assert not any("auto" in line for line in lines if "atch size" in line)
    large = tmp_path / "large.jsonl"
    large.write_text((json.dumps({"text": "of the same length"}) + "\n") * 40_000)
    _, lines = prepare(ByteTokenizer(), inputs=large)
    assert "Tokenizing split 'train'" in lines  # the lines of a file are not counted before it is read
    pq.write_table(pa.table({"text": ["of the same length"] * 40_000}), tmp_path / "large.parquet")
    _, lines = prepare(ByteTokenizer(), inputs=tmp_path / "large.parquet")
    assert "Tokenizing split 'train' with 40000 examples" in lines


def test_dropped_documents_are_logged_by_reason(prepare, tmp_path):
    (tmp_path / "some.jsonl").write_text(json.dumps({"text": "a b c"}) + "\n" + 3 * '{"text": " "}\n')
    _, lines = prepare(ByteTokenizer(), inputs=tmp_path / "some.jsonl")
    assert "Documents left out: 3 (blank 3)" in lines
