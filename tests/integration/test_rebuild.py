"""`tokenmill dataset rebuild`: the same bytes on another path, or an error."""

import json
import os
import random
import shutil

import pytest

import tokenmill
from tokenmill.cli import main
from tokenmill.errors import DatasetError
from tokenmill.pipeline.verify import rebuild

WORDS = ["mill", "turning", "water", "방앗간이", "돌아간다", "磨坊", "在转"]


@pytest.fixture
def world(tmp_path):
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 40))) + f" {nth}" for nth in range(300)]
    for name, part in (("a", texts[:150]), ("sub/b", texts[150:])):
        path = tmp_path / "raw" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(json.dumps({"text": text}) for text in part) + "\n", encoding="utf-8")
    tokenmill.train_from_iterator(texts, 300, special_tokens=["<|endoftext|>"], output=tmp_path / "tok")
    return tmp_path


def prepare(world, inputs=("raw",), output="out", **options):
    options = {"unit_bytes": 4000, "provenance": True, "report": False, "verbose_level": "ERROR"} | options
    return tokenmill.prepare([str(world / each) for each in inputs], world / "tok", world / output, **options)


def move(world):
    """Another machine: other paths, other times, the same bytes."""
    shutil.copytree(world / "raw", world / "elsewhere" / "corpus")
    shutil.copytree(world / "tok", world / "elsewhere" / "tok")
    for path in (world / "elsewhere" / "corpus").rglob("*.jsonl"):
        os.utime(path, (1, 1))
    shutil.rmtree(world / "raw")
    shutil.rmtree(world / "tok")
    return {"inputs": world / "elsewhere" / "corpus", "tokenizer": world / "elsewhere" / "tok"}


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "bestfit", "context_length": 64, "deduplicate": True}, {"format": "npy", "num_shards": 3}],
    ids=["stream", "bestfit", "npy"],
)
def test_the_same_bytes_on_another_path(world, options):
    made = prepare(world, **options)
    again = rebuild(world / "out", world / "again", **move(world))
    assert again.content_hash == made.content_hash


def test_removed_documents_stay_removed(world):
    prepare(world)
    less = tokenmill.remove(world / "out", {3: "takedown", 200: "x"}, world / "less")
    again = rebuild(world / "less", world / "again", **move(world))
    assert again.content_hash == less.content_hash
    assert again.manifest.account.documents_dropped == {"takedown": 1, "x": 1}
    assert not (world / "again.whole").exists()


def test_a_changed_input_is_reported(world, capsys):
    prepare(world)
    main(["dataset", "rebuild", str(world / "out"), "-o", str(world / "same")])
    assert "the same bytes" in capsys.readouterr().out
    file = world / "raw" / "a.jsonl"
    file.write_bytes(file.read_bytes().replace(b"mill", b"MILL"))
    with pytest.raises(DatasetError, match=r"again differs from .* different ones: "):
        rebuild(world / "out", world / "again")


def test_unrecorded_inputs_are_refused(world):
    made = tokenmill.prepare(
        dataset=["a text"], tokenizer=world / "tok", output=world / "memory", report=False
    )
    with pytest.raises(DatasetError, match="data in memory"):
        rebuild(made.path, world / "again")
