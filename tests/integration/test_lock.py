"""`tokenmill dataset lock`, `rebuild` and `diff`: the same bytes on another path, and each kind of change named."""

import json
import os
import random
import shutil

import pytest

import tokenmill
from tokenmill.base.durable import digest
from tokenmill.cli import main
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.rebuild import rebuild

WORDS = ["mill", "turning", "water", "방앗간이", "돌아간다", "磨坊", "在转"]


@pytest.fixture
def world(tmp_path):
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 40))) + f" {nth}" for nth in range(300)]
    for name, part in (("a", texts[:150]), ("sub/b", texts[150:])):
        path = tmp_path / "raw" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(json.dumps({"text": text}) for text in part) + "\n", encoding="utf-8")
    tokenmill.train(iter(texts), 300, special_tokens=["<|endoftext|>"], output=tmp_path / "tok")
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
    [
        {},
        {"mode": "bestfit", "context_length": 64, "deduplicate": True, "validation": 0.2},
        {"format": "npy", "num_shards": 3},
    ],
    ids=["stream", "bestfit", "npy"],
)
def test_the_same_bytes_on_another_path(world, options):
    # In two goes, so that the plan is not what one job would make.
    prepare(world, ("raw/a.jsonl",), **options)
    made = prepare(world, ("raw/a.jsonl", "raw/sub/b.jsonl"), **options)
    lock = tokenmill.lock(world / "out", world / "corpus.lock")
    again = rebuild(lock, world / "again", **move(world))
    assert again.content_hash == made.content_hash
    assert [shard.name for shard in again.manifest.shards] == [shard.name for shard in made.manifest.shards]
    # The same call once more finds it done.
    assert rebuild(
        lock, world / "again", inputs=world / "elsewhere" / "corpus", tokenizer=world / "elsewhere" / "tok"
    )


def test_what_was_removed_stays_removed(world):
    prepare(world)
    less = tokenmill.remove(world / "out", {3: "takedown", 200: "x"}, world / "less")
    lock = tokenmill.lock(world / "less")
    again = rebuild(lock, world / "again", **move(world))
    assert again.content_hash == less.content_hash
    assert again.manifest.account.documents_dropped == {"takedown": 1, "x": 1}
    assert not (world / "again.whole").exists()


def test_each_kind_of_change_is_named(world, tmp_path):
    prepare(world)
    lock = tokenmill.lock(world / "out", world / "corpus.lock")
    file, text = world / "raw" / "a.jsonl", (world / "raw" / "a.jsonl").read_bytes()
    for change, words in (
        (lambda: file.write_bytes(text.replace(b"mill", b"MILL")), "a.jsonl has changed: its SHA-256 is"),
        (lambda: file.write_bytes(text + b"\n"), r"a.jsonl has changed: [\d,]+ bytes, the lock has"),
        (file.unlink, "a.jsonl is gone; give --inputs DIR"),
    ):
        change()
        with pytest.raises(DatasetError, match=words):
            rebuild(lock, world / "again")
        file.write_bytes(text)
    assert not (world / "again").exists()
    tokenmill.train(iter(["other words"] * 9), 280, special_tokens=["<|endoftext|>"], output=world / "other")
    with pytest.raises(DatasetError, match="the tokenizer: this tokenizer gives different ids"):
        rebuild(lock, world / "again", tokenizer=world / "other")
    with pytest.raises(DatasetError, match="the tokenizer: "):
        rebuild(lock, world / "again", tokenizer=world / "nowhere")
    prepare(world, ("raw/a.jsonl",), "taken")
    with pytest.raises(ConfigError, match="holds another dataset"):
        rebuild(lock, world / "taken")


def change_lock(path, change):
    value = json.loads(path.read_text())
    del value["checksum"]
    change(value)
    path.write_text(json.dumps(value | {"checksum": digest(value)}))


def test_a_version_that_encodes_otherwise(world):
    prepare(world)
    lock = tokenmill.lock(world / "out", world / "corpus.lock")

    def other(value):
        value["shards"][1]["files"][0]["sha256"] = "0" * 64
        value["versions"]["tokenmill"] = "0.0.1"

    change_lock(lock, other)
    with pytest.raises(
        DatasetError, match=r"1 of \d+ shards came out differently, first .* \(tokens\).*0\.0\.1 then"
    ):
        rebuild(lock, world / "again")


def test_bad_locks(world):
    prepare(world)
    lock = tokenmill.lock(world / "out", world / "corpus.lock")
    whole = lock.read_text()
    change_lock(lock, lambda value: value.update(lock_version=2))
    with pytest.raises(DatasetError, match="lock_version 2, this tokenmill reads up to 1"):
        rebuild(lock, world / "again")
    lock.write_text(whole.replace("mill", "mull", 3))
    with pytest.raises(DatasetError, match=r"is damaged|is not the lock"):
        rebuild(lock, world / "again")
    lock.write_text("{}")
    with pytest.raises(DatasetError, match="is not the lock"):
        rebuild(lock, world / "again")
    (world / "raw" / "a.jsonl").write_text("other")
    with pytest.raises(DatasetError, match="has changed since the dataset was made"):
        tokenmill.lock(world / "out")
    made = tokenmill.prepare(
        dataset=["a text"], tokenizer=world / "tok", output=world / "memory", report=False
    )
    with pytest.raises(DatasetError, match="in the memory of the process"):
        rebuild(tokenmill.lock(made.path), world / "again")


def test_a_difference_in_every_part(world, capsys):
    prepare(world)
    main(["dataset", "lock", str(world / "out"), "--json"])
    assert json.loads(capsys.readouterr().out)["inputs"] == 2
    tokenmill.remove(world / "out", {3: "x"}, world / "less")
    main(["dataset", "diff", str(world / "out"), str(world / "less"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["changes"]["gone"], found["changes"]["added"]) == (False, 1, 0)
    assert found["changes"]["first_gone"][0]["document"] == 3
    assert found["changes"]["first_gone"][0]["origin"]["row"] == 3
    (source,) = found["sources"].values()
    assert source[0][0] == source[1][0] + 1
    more = prepare(world, ("raw/a.jsonl",), "half", bos="<|endoftext|>")
    main(["dataset", "diff", str(world / "out"), str(more.path)])
    said = capsys.readouterr().out
    assert "settings: packing.bos None -> 0" in said
    assert "b.jsonl gone" in said
    assert "300 gone, 150 added" in said
    assert "-> nothing" in said
    main(["dataset", "diff", str(world / "out"), str(world / "out" / "tokenmill.lock")])
    assert "the same bytes in every shard" in capsys.readouterr().out
    main(["dataset", "lock", str(world / "less"), "-o", str(world / "less.lock")])
    main(["dataset", "diff", str(world / "out" / "tokenmill.lock"), str(world / "less.lock")])
    assert "a lock does not hold the documents" in capsys.readouterr().out
    main(["dataset", "rebuild", str(world / "less.lock"), "-o", str(world / "again")])
    assert "the same bytes as the lock" in capsys.readouterr().out
