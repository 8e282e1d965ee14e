"""`tokenmill dataset trace`: a step to its records and back, for every packing, and every wrong question refused."""

import json
import random

import pytest

import tokenmill
from object_store import bucket, s3_endpoint  # noqa: F401
from tokenmill.cli import main
from tokenmill.errors import DatasetError

WORDS = ["mill", "turning", "water", "방앗간이", "돌아간다", "磨坊", "在转", "🌊", "\n"]
QUIET = {"report": False, "verbose_level": "ERROR"}
NAMED = {"provenance": True, "id_field": "key", **QUIET}
PACKINGS = {
    "stream": {},
    "concat": {"mode": "concat", "context_length": 64},
    "window": {"mode": "window", "context_length": 64, "overlap": 8},
    "bestfit": {"mode": "bestfit", "context_length": 64},
    "pad": {"mode": "pad", "context_length": 64},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("trace")
    rng = random.Random(7)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(0, 60))) + f" #{nth}" for nth in range(300)]
    for name, part in (("a", texts[:170]), ("b", texts[170:])):
        lines = [json.dumps({"text": text, "key": f"{name}{nth}"}) for nth, text in enumerate(part)]
        (root / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenmill.train_from_iterator(texts, 300, special_tokens=["<|endoftext|>"], output=root / "tok")
    for packing, options in PACKINGS.items():
        inputs = [str(root / "a.jsonl"), str(root / "b.jsonl")]
        tokenmill.prepare(inputs, root / "tok", root / packing, **NAMED, unit_bytes=4000, **options)
    tokenmill.prepare(dataset=texts, tokenizer=root / "tok", output=root / "plain", **QUIET)
    return root, texts


def ask(capsys, *words):
    main(["dataset", "trace", *map(str, words), "--json"])
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        main(["dataset", "trace", *map(str, words)])
    assert stop.value.code in (1, 2)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


RUN = ("--seed", 5, "-w", 3, "-b", 2)


@pytest.mark.parametrize("packing", sorted(PACKINGS))
def test_a_step_tells_its_records(world, capsys, packing):
    root, texts = world
    cut = ("--context-length", 64) if packing == "stream" else ()
    rows = tokenmill.open(root / packing).rows(*cut[1:])
    tokenizer = tokenmill.Tokenizer.load(root / "tok")
    feeds = [rows.batches(2, shuffle=True, seed=5, rank=rank, world_size=3) for rank in range(3)]
    batches = [list(feed)[2]["input_ids"] for feed in feeds]
    found = ask(capsys, root / packing, *cut, *RUN, "--step", 2, "--text")["rows"]
    assert [(row["rank"], row["place"]) for row in found] == [(r, p) for r in range(3) for p in range(2)]
    for row in found:
        ids = batches[row["rank"]][row["place"]]
        assert row["documents"]
        for part in row["documents"]:
            origin = part["origin"]
            file = origin["input"].rpartition("/")[2]
            nth = origin["row"] + (170 if file == "b.jsonl" else 0)
            whole = [*tokenizer.encode(texts[nth], special="text"), tokenizer.special_id("eos")]
            mine = ids[part["place"] : part["place"] + part["length"]].tolist()
            assert whole[part["start"] : part["start"] + part["length"]] == mine
            assert origin["id"] == f"{file[0]}{origin['row']}"
            assert part["text"] == tokenizer.decode(mine)


@pytest.mark.parametrize("packing", sorted(PACKINGS))
def test_a_document_tells_its_steps(world, capsys, packing):
    root, _ = world
    cut = ("--context-length", 64) if packing == "stream" else ()
    ways = [("--document", f"{root}/b.jsonl:7"), ("--document", "b.jsonl:7"), ("--id", "b7")]
    answers = [ask(capsys, root / packing, *cut, *RUN, *way, "--until", 200) for way in ways]
    answers.append(ask(capsys, root / packing, *cut, *RUN, "--contains", " #177", "--until", 200))
    assert answers[0]["rows"]
    assert all(answer == answers[0] for answer in answers)
    (documents,) = answers[0]["documents"].values()
    step = answers[0]["rows"][0]["step"]
    there = ask(capsys, root / packing, *cut, *RUN, "--step", step)["rows"]
    assert any(part["document"] in documents for row in there for part in row["documents"])


def test_from_a_state(world, capsys, tmp_path):
    root, _ = world
    feed = tokenmill.open(root / "stream").rows(64, 1).batches(2, shuffle=True, seed=5, world_size=3)
    reading = iter(feed)
    for _ in range(4):
        next(reading)
    state = tmp_path / "state.json"
    state.write_text(json.dumps(feed.state_dict()))
    expected = next(reading)["input_ids"]
    # The state says how rows were cut and shuffled, and steps count from it.
    found = ask(capsys, root / "stream", "--state", state, "-w", 3, "-b", 2, "--rank", 0)
    rows = tokenmill.open(root / "stream").rows(64, 1)
    assert [rows[row["row"]].tolist() for row in found["rows"]] == expected.tolist()
    again = ask(
        capsys, root / "stream", "--context-length", 64, "--overlap", 1, *RUN, "--rank", 0, "--step", 4
    )
    assert [row["row"] for row in again["rows"]] == [row["row"] for row in found["rows"]]
    assert "belongs to other data" in refused(capsys, root / "plain", "--state", state, "-w", 3, "-b", 2)
    assert "seed" in refused(capsys, root / "stream", "--state", state, "-w", 3, "-b", 2, "--seed", 6)
    state.write_text("[1]")
    assert "the object that state_dict() returns" in refused(capsys, root / "stream", "--state", state)
    state.write_text("{")
    assert "not a JSON file" in refused(capsys, root / "stream", "--state", state)


def test_a_dataset_that_grew_after_the_run(world, capsys, tmp_path):
    root, _ = world
    out, options = tmp_path / "out", {"unit_bytes": 4000, **NAMED}
    old = tokenmill.prepare(str(root / "a.jsonl"), root / "tok", out, **options)
    shards = len(old.manifest.shards)
    feed = old.rows(64).batches(2, shuffle=True, seed=5, world_size=3)
    local = old.rows(64).batches(2, shuffle="local", seed=5)
    expected = [next(iter(feed))["input_ids"].tolist() for _ in range(2)][1]
    next(iter(local))
    state = tmp_path / "state.json"
    state.write_text(json.dumps(feed.state_dict()))
    inputs = [str(root / "a.jsonl"), str(root / "b.jsonl")]
    new = tokenmill.prepare(inputs, root / "tok", out, **options)
    assert new.manifest.grown == (shards,)
    cut, more = ("--context-length", 64, *RUN), ("--rank", 0, "--step", 1)
    for way in (cut, ("--state", state, "-w", 3, "-b", 2)):
        assert f"grown from {shards} to {len(new.manifest.shards)} shards" in refused(capsys, out, *way)
    found = ask(capsys, out, *cut, *more, "--shards", shards)["rows"]
    assert [old.rows(64)[row["row"]].tolist() for row in found] == expected
    ask(capsys, out, *cut, "--shards", len(new.manifest.shards))
    assert "never published with 1 shards" in refused(capsys, out, *cut, "--shards", 1)
    # A resumed run reads the old rows first, and a local order cannot.
    new.rows(64).batches(2, shuffle=True, seed=5).load_state_dict(feed.state_dict())
    moved = new.rows(64).batches(2, shuffle="local", seed=5)
    with pytest.raises(DatasetError, match=f"open it with shards={shards}"):
        moved.load_state_dict(local.state_dict())
    again = tokenmill.open(out, shards=shards).rows(64).batches(2, shuffle="local", seed=5)
    again.load_state_dict(local.state_dict())
    assert next(iter(again))["input_ids"].tolist() == next(iter(local))["input_ids"].tolist()


def test_wrong_questions_are_answered_with_a_sentence(world, capsys):
    root, _ = world
    stream, cut = root / "stream", ("--context-length", 64)
    assert "steps count from 0" in refused(capsys, stream, *cut, *RUN, "--step", -1)
    assert "context_length" in refused(capsys, stream, *RUN, "--step", 0)
    assert "rank must be" in refused(capsys, stream, *cut, *RUN, "--step", 0, "--rank", 3)
    assert "world_size=0" in refused(capsys, stream, *cut, "-w", 0, "--step", 0)
    assert "no input has this name" in refused(capsys, stream, *cut, *RUN, "--document", "c.jsonl:7")
    assert "is not a document" in refused(capsys, stream, *cut, *RUN, "--document", "b.jsonl:700")
    assert "is not FILE:ROW" in refused(capsys, stream, *cut, *RUN, "--document", "b.jsonl")
    assert "has the id 'x'" in refused(capsys, stream, *cut, *RUN, "--id", "x")
    assert "no document of" in refused(capsys, stream, *cut, *RUN, "--contains", "windmill")
    plain = root / "plain"
    for way in (("--document", "b.jsonl:7"), ("--id", "b7")):
        said = refused(capsys, plain, *cut, *RUN, *way)
        assert "--provenance" in said
        assert "--contains" in said
    assert ask(capsys, plain, *cut, *RUN, "--contains", " #177")["rows"]
    assert "a.jsonl" in refused(capsys, root / "a.jsonl", *cut, *RUN, "--step", 0)
    assert "no such directory" in refused(capsys, root / "nowhere", *cut, *RUN, "--step", 0)
    assert "one of --document" in refused(capsys, stream, *cut, *RUN, "--id", "b7", "--contains", "x")


def test_words_for_people(world, capsys):
    root, _ = world
    main(["dataset", "trace", str(root / "stream"), "--context-length", "64", "--step", "0", "--text"])
    said = capsys.readouterr().out
    assert said.startswith("step 0, rank 0, row 0 of the batch: row 0 of ")
    assert "a.jsonl row 0, id a0" in said
    main(["dataset", "trace", str(root / "pad"), "--id", "a3"])
    assert "1 document, in " in capsys.readouterr().out
