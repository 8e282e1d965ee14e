"""`tokenmill bench` says how far its turns lie apart."""

import json

import pytest

import tokenmill
from tokenmill.cli import main


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # which bench sets, and monkeypatch puts back
    texts = ["one small step", "two small steps"] * 50
    tokenmill.train_from_iterator(texts, 280, progress=False).save("tok")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return ["bench", "a.jsonl", "--tokenizer", "tok", "--megabytes", "0.01"]


def test_every_row_has_its_spread(files, capsys):
    main([*files, "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["name"] == "tokenmill"
    assert all(0 <= row["spread"] < 100 for row in rows if row["same_ids"] is True)
    main(files)
    head, first = capsys.readouterr().out.splitlines()[1:3]
    assert "spread" in head
    assert "%" in first
