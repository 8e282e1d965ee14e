"""`tokenmill.prepare` takes data first, then the tokenizer, then the output: as the command and `train` do."""

import json

import pyarrow as pa
import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.errors import ConfigError

TEXTS = ["one", "two words", "and three more"]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKENMILL_VERBOSE_LEVEL", "ERROR")
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    tokenmill.train_from_iterator(TEXTS, 260, special_tokens=["<|endoftext|>"], progress=False).save("tok")
    return path


def test_data_tokenizer_output(corpus):
    made = tokenmill.prepare("*.jsonl", "tok", "out")
    assert len(made) == 3
    again = tokenmill.prepare(inputs=[corpus], tokenizer="tok", output="named")
    assert again.content_hash == made.content_hash


def test_a_settings_file_by_name_and_in_the_first_place(corpus):
    for name in ("job.yaml", "job.yml"):
        text = f"source: {{inputs: corpus.jsonl}}\ntokenizer: {{tokenizer_name: tok}}\noutput: {{path: {name}-out}}\n"
        (corpus.parent / name).write_text(text, encoding="utf-8")
        made = tokenmill.prepare(corpus.parent / name)
        assert str(made.path) == f"{name}-out"
        assert len(tokenmill.prepare(config=name, output="elsewhere", fresh=True, min_chars=5)) == 2
    with pytest.raises(ConfigError, match="no file at absent"):
        tokenmill.prepare("absent.yaml")


@pytest.mark.parametrize("data", [pa.table({"text": TEXTS}), [{"text": text} for text in TEXTS], iter(TEXTS)])
def test_data_in_memory_may_come_first(corpus, data):
    assert len(tokenmill.prepare(data, ByteTokenizer(), "out")) == 3
    with pytest.raises(ConfigError, match="give one of them"):
        tokenmill.prepare(pa.table({"text": TEXTS}), ByteTokenizer(), "out", dataset=TEXTS)


def test_rows_have_the_columns_of_the_default_view(corpus):
    made = tokenmill.prepare(
        corpus, "tok", "out", mode="pad", context_length=16, columns=["labels", "position_ids"], report=False
    )
    assert set(made.rows().example(0)) == {"input_ids", "labels", "position_ids"}
    assert set(made.rows(columns=()).example(0)) == {"input_ids"}
    assert set(next(iter(made.rows(columns=["labels"]).batches(2)))) == {"input_ids", "labels"}
