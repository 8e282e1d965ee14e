"""The card of a vocabulary: every figure equals a plain computation over `encode`, one text at a time."""

import csv
import io
import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

import tokenmill
from mill_words import ENGLISH, KOREAN
from tokenmill.cli.plan import doctor
from tokenmill.cli.tokenizer import card as command
from tokenmill.errors import ConfigError, InputError
from tokenmill.vocab.graft import graft_model
from tokenmill.vocab.maps import VocabularyMap


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two languages with the same ids but for one document, and tokenizers of the first and of both."""
    root = tmp_path_factory.mktemp("card")
    texts = {}
    for name, words in (("en", ENGLISH), ("ko", KOREAN)):
        texts[name] = [" ".join(words[(n * k) % len(words)] for k in range(1, 9)) for n in range(40)]
        rows = [{"id": f"{n}" if n else name, "text": text} for n, text in enumerate(texts[name])]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (root / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    special = ["<|end|>", "<|reserved_1|>"]
    tokenmill.train_from_iterator(texts["en"], 300, special_tokens=special, output=root / "a", progress=False)
    both = texts["en"] + texts["ko"]
    tokenmill.train_from_iterator(both, 340, special_tokens=special, output=root / "b", progress=False)
    return root, texts


def run(*words):
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def measured(root, *more):
    on = ("--on", f"en={root / 'en.jsonl'}", "--on", f"ko={root / 'ko.jsonl'}")
    return json.loads(run(root / "a", root / "b", *on, "--json", *more))


def test_figures_equal_a_plain_computation(place):
    root, texts = place
    data = measured(root, "--parallel", "id")
    for folder, found in zip(("a", "b"), data["tokenizers"], strict=True):
        tokenizer = tokenmill.Tokenizer.load(root / folder)
        both = Counter()
        for name, documents in texts.items():
            ids = Counter(id_ for text in documents for id_ in tokenizer.encode(text, special="text"))
            both += ids
            tokens, size = sum(ids.values()), tokenizer.vocab_size
            shares = [count / tokens for count in ids.values()]
            figures = found["corpora"][name]
            assert figures["tokens"] == tokens
            joined = "\n".join(documents)
            assert figures["bytes_per_token"] == pytest.approx(
                sum(len(t.encode()) for t in documents) / tokens
            )
            assert figures["characters_per_token"] == pytest.approx(sum(map(len, documents)) / tokens)
            assert figures["tokens_per_word"] == pytest.approx(tokens / len(re.findall(r"\w+", joined)))
            renyi = math.log(sum(share**2.5 for share in shares)) / (1 - 2.5) / math.log(size)
            assert figures["renyi_efficiency"] == pytest.approx(renyi)
            shannon = -sum(share * math.log(share) for share in shares) / math.log(size)
            assert figures["shannon_efficiency"] == pytest.approx(shannon)
            assert figures["used_share"] == pytest.approx(len(ids) / size)
        own = set(range(tokenizer.vocab_size)) - set(tokenizer.added_tokens.values())
        assert {row["id"] for row in found["unused"]} == own - both.keys()
        assert {row["id"]: row["count"] for row in found["rare"]} == {
            id_: count for id_, count in both.items() if count < 10
        }
        assert sum(found["scripts"].values()) == sum(found["lengths"]) == len(own)
        # The first document of each language has an id of its own.
        cost = [sum(len(tokenizer.encode(text)) for text in texts[name][1:]) for name in ("en", "ko")]
        parity = found["parity"]
        assert (parity["documents"], parity["reference"]) == (39, "en")
        assert parity["ratio"] == pytest.approx({"en": 1.0, "ko": cost[1] / cost[0]})
        gini = sum(abs(x - y) for x in cost for y in cost) / (2 * len(cost) ** 2 * np.mean(cost))
        assert parity["gini"] == pytest.approx(gini)
    spelled = [
        {tok.token_bytes(id_) for id_ in range(tok.vocab_size)}
        for tok in (tokenmill.Tokenizer.load(root / name) for name in "ab")
    ]
    (overlap,) = data["overlap"]
    assert overlap["shared"] == len(spelled[0] & spelled[1])
    assert overlap["share_of_a"] == pytest.approx(len(spelled[0] & spelled[1]) / len(spelled[0]))


def test_a_token_that_nothing_encodes_to_is_listed_with_what_does():
    # "ab" can only be merged from bytes that an earlier merge takes apart: "bc" comes first, always.
    tokenizer = tokenmill.train_from_iterator(["bc bc bc abc abc ab"] * 9, 262, progress=False)
    for row in tokenmill.card(tokenizer)["tokenizers"][0]["unreachable"]:
        assert [part["id"] for part in row["encodes_to"]] == tokenizer.encode(row["token"])
        assert row["id"] not in tokenizer.encode(row["token"])


def test_the_same_figures_in_every_form(place, tmp_path):
    root, _ = place
    on = ("--on", f"en={root / 'en.jsonl'}", "--on", str(root / "ko.jsonl"))
    rows = list(csv.DictReader(io.StringIO(run(root / "a", root / "b", *on, "--csv"))))
    assert [(row["corpus"], row["tokenizer"]) for row in rows] == [
        ("en", "a"), ("en", "b"), ("ko.jsonl", "a"), ("ko.jsonl", "b"),
    ]  # fmt: skip
    data = measured(root)
    assert float(rows[0]["renyi_efficiency"]) == data["tokenizers"][0]["corpora"]["en"]["renyi_efficiency"]
    shown = run(root / "a", root / "b", *on, "--html", tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    figure = f"{data['tokenizers'][1]['corpora']['ko']['bytes_per_token']:.3f}"
    assert figure in shown
    assert figure in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="', page)


def test_what_cannot_be_compared_is_refused(place, tmp_path):
    root, _ = place
    tokenizer = tokenmill.Tokenizer.load(root / "a")
    with pytest.raises(ConfigError, match="two corpora"):
        tokenmill.card(tokenizer, {"en": str(root / "en.jsonl")}, parallel="id")
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(InputError, match="contains no text"):
        tokenmill.card(tokenizer, {"none": str(tmp_path / "empty.jsonl")})
    (tmp_path / "other.jsonl").write_text('{"id": "x", "text": "low"}\n')
    on = {"en": str(root / "en.jsonl"), "other": str(tmp_path / "other.jsonl")}
    with pytest.raises(InputError, match="in all corpora"):
        tokenmill.card(tokenizer, on, parallel="id")


def test_a_draft_vocabulary_has_the_most_frequent_ids(place, tmp_path):
    root, texts = place
    told = run(
        root / "b", "--on", root / "en.jsonl", "--draft", 270, "-o", tmp_path / "d.safetensors", "--json"
    )
    maps = load_file(tmp_path / "d.safetensors")
    tokenizer = tokenmill.Tokenizer.load(root / "b")
    counts = Counter(id_ for text in texts["en"] for id_ in tokenizer.encode(text))
    chosen = np.flatnonzero(maps["t2d"])
    assert len(chosen) == 270
    assert (np.arange(270) + maps["d2t"] == chosen).all()
    assert set(tokenizer.special_tokens.values()) <= set(chosen.tolist())
    left_out = [counts[id_] for id_ in range(tokenizer.vocab_size) if not maps["t2d"][id_]]
    assert max(left_out) <= min(counts[id_] for id_ in chosen.tolist() if id_ not in (0, 1))
    covered = sum(counts[id_] for id_ in chosen.tolist()) / sum(counts.values())
    assert json.loads(told)["coverage"] == pytest.approx(covered)


def test_golden_ids_name_the_first_string_that_differs(place, tmp_path):
    root, _ = place
    golden = tmp_path / "golden.json"
    run(root / "a", "--golden", golden)
    body = json.loads(golden.read_text(encoding="utf-8"))
    tokenizer = tokenmill.Tokenizer.load(root / "a")
    assert len(body["strings"]) == len({text for text, _ in body["strings"]}) == 2000
    assert all(tokenizer.encode(text, special="text") == ids for text, ids in body["strings"])
    assert "same ids on 2,000 strings" in CliRunner().invoke(doctor, ["--golden", str(golden)]).output
    done = CliRunner().invoke(doctor, ["--golden", str(golden), "--tokenizer", str(root / "b")])
    other = tokenmill.Tokenizer.load(root / "b")
    text, ids = next(row for row in body["strings"] if other.encode(row[0], special="text") != row[1])
    assert done.exit_code == 1
    assert f"{text!r}: {ids} before, {other.encode(text, special='text')} now" in done.output
    golden.write_text("{}")
    assert "is not a file of golden ids" in CliRunner().invoke(doctor, ["--golden", str(golden)]).output


def test_untrained_rows_are_found_and_enter_no_average(place, tmp_path):
    root, _ = place
    tokenizer, rng = tokenmill.Tokenizer.load(root / "a"), np.random.default_rng(1)
    rows = tokenizer.vocab_size + 12
    table = rng.normal(size=(rows, 16)).astype(np.float32)
    untrained = [1, 70, 71, *range(tokenizer.vocab_size, rows)]  # 1 is reserved, the last are padding
    table[untrained] = rng.normal(scale=0.01, size=(len(untrained), 16)) + 0.02
    (tmp_path / "model").mkdir()
    save_file({"model.embed_tokens.weight": table}, tmp_path / "model" / "model.safetensors")
    found = json.loads(run(root / "a", "--model", tmp_path / "model", "--json"))["tokenizers"][0]["untrained"]
    assert found["reference"] == 13
    assert {70, 71} <= {row["id"] for row in found["tokens"]} <= set(untrained)
    parts = {rows: (50, 70), rows + 1: (70, 71)}
    old = {id_: (id_,) for id_ in range(tokenizer.vocab_size)} | parts
    change = VocabularyMap("x", "y", tokenizer.vocab_size, rows + 2, old, tmp_path, extends=True)
    told = graft_model(tmp_path / "model", change, tmp_path / "out")
    made = load_file(tmp_path / "out" / "model.safetensors")["model.embed_tokens.weight"]
    assert told["untrained"]["model.embed_tokens.weight"] == 3
    assert np.array_equal(made[rows], table[50])
    kept = np.delete(table[: tokenizer.vocab_size], [1, 70, 71], axis=0)
    assert made[rows + 1] == pytest.approx(kept.mean(axis=0), abs=1e-6)
