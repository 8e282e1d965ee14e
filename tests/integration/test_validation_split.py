"""`prepare --validation`: a document is on one side by its content alone, whatever else changes."""

import json
import random
from collections import Counter

import pyarrow as pa
import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer, prepare_bytes
from tokenmill.cli import main
from tokenmill.errors import ConfigError, DatasetError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("validation")
    rng = random.Random(3)
    texts = [" ".join(rng.choices(["mill", "turns", "방앗간", "磨坊"], k=9)) + f" {n}" for n in range(900)]
    texts += rng.sample(texts, 100)  # copies
    for name, part in (("a", texts[:300]), ("b", texts[300:600]), ("c", texts[600:])):
        write(root / f"{name}.jsonl", part)
    return root, texts


def write(path, texts):
    lines = [json.dumps({"text": text, "key": text.rpartition(" ")[2][:1]}) for text in texts]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(inputs, output, **options):
    return prepare_bytes(list(map(str, inputs)), output, **{"unit_bytes": 5000, "validation": 0.1} | options)


def documents(dataset):
    return Counter(ByteTokenizer().decode(ids) for ids in dataset)


def sides(dataset):
    return documents(dataset), documents(dataset.split("validation"))


def test_nothing_moves_a_document_to_the_other_side(corpus, tmp_path):
    root, texts = corpus
    files = [root / f"{name}.jsonl" for name in "abc"]
    training, validation = sides(prepare(files, tmp_path / "all"))
    assert training + validation == Counter(texts)
    assert 60 < validation.total() < 140
    assert not set(training) & set(validation)
    # Threads, units, order.
    mixed = tmp_path / "mixed.jsonl"
    write(mixed, random.Random(1).sample(texts, len(texts)))
    ways = {
        "threads": {"threads": 1},
        "units": {"unit_bytes": 300},
        "batches": {"batch_size": 7, "threads": 3},
    }
    for name, options in ways.items():
        assert sides(prepare(files, tmp_path / name, **options)) == (training, validation)
    assert sides(prepare([mixed], tmp_path / "order", packing="bestfit", context_length=64)) == (
        training,
        validation,
    )
    # What is added later.
    few = prepare(files[:1], tmp_path / "grown")
    before = sides(few)
    grown = prepare(files, tmp_path / "grown")
    assert sides(grown) == (training, validation)
    assert before[0] <= training
    assert before[1] <= validation
    assert grown.content_hash == tokenmill.open(tmp_path / "grown").content_hash


def test_the_account_says_where_the_others_went(corpus, tmp_path):
    root, _ = corpus
    made = prepare([root / "a.jsonl"], tmp_path / "out")
    other = made.split("validation")
    assert made.manifest.account.documents_dropped == {"validation": len(other)}
    assert other.manifest.account.documents_dropped == {"training": len(made)}
    assert made.split("training") is made
    with pytest.raises(DatasetError, match="there is no split 'test'"):
        made.split("test")


@pytest.mark.parametrize("by", ["hash", "id-field"])
def test_no_copy_is_on_both_sides_when_deduplicated(corpus, tmp_path, by):
    root, texts = corpus
    files = [root / f"{name}.jsonl" for name in "abc"]
    made = prepare(
        files, tmp_path / "out", deduplicate=True, validation_by=by, id_field="key", validation=0.3
    )
    training, validation = sides(made)
    assert training + validation == Counter(dict.fromkeys(texts, 1))
    if by == "id-field":
        keys = [{text.rpartition(" ")[2][:1] for text in side} for side in (training, validation)]
        assert not keys[0] & keys[1]


def test_by_an_id_documents_of_one_id_stay_together(tmp_path):
    table = pa.table({"text": [f"text {n}" for n in range(600)], "doc": [f"d{n % 40}" for n in range(600)]})
    options = {"validation": "25%", "validation_by": "id-field", "id_field": "doc"}
    made = prepare_bytes(None, tmp_path / "out", dataset=table, **options)
    groups = [{int(text.split()[1]) % 40 for text in side} for side in sides(made)]
    assert not groups[0] & groups[1]
    assert groups[0] | groups[1] == set(range(40))


def test_from_the_command_line(corpus, tmp_path, capsys):
    root, _ = corpus
    tokenmill.train_from_iterator(["mill turns 방앗간 磨坊"] * 9, 280, output=tmp_path / "tok")
    command = ["prepare", root / "a.jsonl", "-t", tmp_path / "tok", "-o", tmp_path / "out"]
    main([*map(str, command), "--validation", "10%", "--eos", "false", "--no-report", "--json"])
    training, validation = capsys.readouterr().out.split("}\n{")
    assert json.loads(training + "}")["path"].endswith("out")
    assert json.loads("{" + validation)["path"].endswith("out/validation")
    main(["dataset", "verify", str(tmp_path / "out" / "validation")])
    assert "0 problems, 0 skipped" in capsys.readouterr().out


def test_one_side_alone(corpus, tmp_path):
    root, _ = corpus
    both = prepare([root / "a.jsonl"], tmp_path / "both")
    prepare([root / "a.jsonl"], tmp_path / "one", validation_part="validation")
    prepare([root / "a.jsonl"], tmp_path / "one", validation_part="training")
    one = tokenmill.open(tmp_path / "one")
    assert one.content_hash == both.content_hash
    assert one.split("validation").content_hash == both.split("validation").content_hash


def test_what_is_refused(tmp_path):
    small = tmp_path / "small.jsonl"
    write(small, ["one", "two"])
    for options, kind, words in (
        ({"validation": 1}, ConfigError, "leaves nothing to train on"),
        ({"validation": "120%"}, ConfigError, "leaves nothing to train on"),
        ({"validation": 0}, ConfigError, "expected a share above 0"),
        ({"validation": "much"}, ConfigError, "expected a share above 0"),
        ({"validation": "x%"}, ConfigError, "expected a share above 0"),
        (
            {"validation": 1e-6},
            DatasetError,
            "of 2 documents leaves none for validation: take a larger share",
        ),
        ({"validation": 0.999999999}, DatasetError, "leaves none for training: take a smaller share"),
        ({"validation_by": "id-field"}, ConfigError, "needs an `id_field`"),
        ({"validation": None, "validation_by": "hash"}, ConfigError, "needs validation"),
    ):
        with pytest.raises(kind, match=words):
            prepare([small], tmp_path / "out", fresh=True, **options)


def test_inputs_with_splits_of_their_own(tmp_path):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"text": ["a", "b"]})
    splits = datasets.DatasetDict({"train": table, "test": table})
    with pytest.raises(ConfigError, match="already have splits"):
        prepare_bytes(None, tmp_path / "out", dataset=splits, validation=0.5)
