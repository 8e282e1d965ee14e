"""A look at the first documents is small whatever the inputs hold."""

import json

import pytest

from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import discover, infer_fields
from tokenmill.sources.read import LONGEST, read_first_documents


@pytest.fixture
def look(tmp_path):
    def write_and_look(files, most=512):
        for name, texts in files.items():
            lines = [text if text.startswith("!") else json.dumps({"text": text}) for text in texts]
            (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        config = SourceConfig(inputs=(str(tmp_path),))
        found = discover(config)
        return read_first_documents(found, infer_fields(config, found)[0], most)

    return write_and_look


def test_some_of_each_file(look):
    sample = look({f"{number:02}.jsonl": [f"{number} a", f"{number} b"] for number in range(20)}, most=8)
    assert sample.texts == [f"{number} a" for number in range(0, 16, 2)]


def test_long_documents_are_cut_but_their_size_is_known(look):
    sample = look({"a.jsonl": ["a" * (2 * LONGEST), "나"]})
    assert [len(text) for text in sample.texts] == [LONGEST, 1]
    assert sample.average_bytes == (2 * LONGEST + 3) / 2


def test_bad_records_are_left_for_the_job_to_tell(look):
    assert look({"a.jsonl": ["fine", "! not json", "also fine"]}).texts == ["fine", "also fine"]


def test_nothing_there():
    sample = read_first_documents([], SourceConfig())
    assert sample.texts == []
    assert sample.average_bytes is None
