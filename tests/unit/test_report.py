"""Every number in a report is recomputed here from the dataset itself; pages hold no script and ask for nothing."""

import json
import re
from collections import Counter

import numpy as np
import pytest

import tokenmill
from tokenmill.errors import DatasetError
from tokenmill.report.dataset import write_report
from tokenmill.vocab.scripts import script_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    texts = [f"document {n} says the mill turns {'방앗간 ' * (n % 7)}" for n in range(300)] + ["", "{broken"]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts[:-1]] + [texts[-1]]
    (root / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenmill.train_from_iterator(
        texts[:300], 400, special_tokens=["<|endoftext|>"], progress=False, output=root / "tok"
    )
    return root


def prepared(run, name, **options):
    return tokenmill.prepare(
        inputs=[str(run / "in.jsonl")],
        tokenizer=str(run / "tok"),
        output=str(run / name),
        on_error="skip",
        show_progress=False,
        verbose_level="ERROR",
        **options,
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("stream", {}),
        ("concat", {"packing": "concat", "context_length": 64}),
        ("window", {"context_length": 64, "overlap": 16}),
        ("pad", {"packing": "pad", "context_length": 64}),
    ],
)
def test_numbers_equal_the_dataset(run, name, options):
    dataset = prepared(run, name, **options)
    data = json.loads((run / name / "report.json").read_text())
    tokenizer = tokenmill.Tokenizer.load(run / "tok")
    documents = [dataset[index] for index in range(len(dataset))]
    manifest = dataset.manifest
    assert data["documents"] == len(documents) == manifest.documents
    assert data["tokens"] == manifest.tokens
    assert data["account"] == manifest.account.to_json()
    assert data["bytes"] == sum(f.stat().st_size for f in (run / name / "shards").iterdir())
    lengths = [len(ids) for ids in documents]
    assert data["lengths"]["documents"] == len(documents)
    assert data["lengths"]["longest"] == max(lengths)
    assert data["lengths"]["mean"] == pytest.approx(np.mean(lengths))
    for row in data["lengths"]["classes"]:
        assert row["documents"] == sum(row["from"] <= length <= row["to"] for length in lengths)
    stored = Counter(np.concatenate([dataset.shards.file(s) for s in range(len(manifest.shards))]).tolist())
    if manifest.packing.pad_id is not None:
        stored[manifest.packing.pad_id] -= manifest.account.tokens_padding
    assert {t["id"]: t["count"] for t in data["vocabulary"]["top"]} == {
        t["id"]: stored[t["id"]] for t in data["vocabulary"]["top"]
    }
    assert data["vocabulary"]["used"] == sum(count > 0 for count in stored.values())
    by_script = Counter()
    for token, count in stored.items():
        by_script[script_of(tokenizer.token_bytes(token))] += count
    assert {row["script"]: row["tokens"] for row in data["scripts"]} == {
        s: n for s, n in by_script.items() if n
    }
    assert sum(source["tokens"] for source in data["sources"]) == manifest.account.tokens_encoded
    assert data["rejects"][0]["place"].startswith(str(run / "in.jsonl"))


def test_small_files_are_listed_by_name_if_there_is_provenance(run):
    tokenizer = tokenmill.Tokenizer.load(run / "tok")
    expected, folder = {}, run / "three"
    folder.mkdir()
    for name, count in (("a", 3), ("b", 5), ("c", 2)):
        texts = [f"{name} says the mill turns {n}" for n in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        end = len(texts)  # each document ends with a token of its own
        expected[f"{name}.jsonl"] = (count, sum(len(tokenizer.encode(text)) for text in texts) + end)
    for provenance in (True, False):
        output = run / f"three-{provenance}"
        tokenmill.prepare(
            inputs=[str(folder)],
            tokenizer=str(run / "tok"),
            output=str(output),
            provenance=provenance,
            show_progress=False,
            verbose_level="ERROR",
        )
        sources = json.loads((output / "report.json").read_text())["sources"]
        if provenance:
            found = {row["path"].rpartition("/")[2]: (row["documents"], row["tokens"]) for row in sources}
            assert found == expected
        else:
            assert [row["documents"] for row in sources] == [10]


def test_pages_are_self_contained(run):
    prepared(run, "page")
    for page in (run / "page" / "report.html", run / "tok" / "report.html"):
        html = page.read_text(encoding="utf-8")
        assert "<script" not in html
        assert not re.search(r'(?:src|href)="', html)
        assert html.count("<section") == html.count("</section>") >= 5


def test_a_report_of_nothing_or_of_half_a_run_says_so(run, tmp_path):
    with pytest.raises(DatasetError, match="no such directory"):
        write_report(tmp_path / "none")
    dataset = prepared(run, "half")
    (run / "half" / "manifest.json").unlink()
    assert len(dataset) > 0
    with pytest.raises(DatasetError, match="unfinished"):
        write_report(run / "half")


@pytest.mark.parametrize(
    ("token", "script"),
    [
        ("한국", "Hangul"),
        (" the", "Latin"),
        ("磨坊", "Han"),
        ("12", "digits"),
        ("\n\n", "white space"),
        (" 12a", "Latin"),
        ("ひ", "Kana"),
    ],
)
def test_scripts(token, script):
    assert script_of(token.encode()) == script
    assert script_of(b"\xff") == "part of a character"
