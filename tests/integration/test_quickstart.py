"""The first command that anybody runs."""

import json
from pathlib import Path

import tokenmill
from tokenmill.cli import main


def test_quickstart_tells_what_it_made(tmp_path, capsys):
    main(["quickstart", "--output", str(tmp_path / "first"), "--json"])
    done = json.loads(capsys.readouterr().out)
    dataset = tokenmill.open(done["dataset"])
    assert (len(dataset), dataset.num_tokens) == (done["documents"], done["tokens"])
    assert Path(done["report"]).read_text(encoding="utf-8").startswith("<!")
    ids = dataset[0].tolist()
    assert done["first_document"] in tokenmill.Tokenizer.load(done["tokenizer"]).decode(ids)


def test_quickstart_for_people_and_again(tmp_path, capsys):
    for _ in range(2):
        main(["quickstart", "--output", str(tmp_path / "first")])
        assert "600 documents" in capsys.readouterr().out
