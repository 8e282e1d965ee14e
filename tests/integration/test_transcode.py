"""From one tokenizer's ids to another's without the raw text: the same bytes as preparing the text anew."""

import json
import random
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import tokenmill
from small_tokenizers import write_word_piece
from tokenmill.datasets.records import Records
from tokenmill.errors import DatasetError
from tokenmill.pipeline.transcode import transcode

WORDS = [
    "mill", "turning", "water", "방앗간이", "돌아간다", "물레방아", "磨坊", "在转", "<|endoftext|>", "\n\n",
    "🌊",
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("transcode")
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(0, 60))) for _ in range(400)]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (root / "c.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    special = ["<|endoftext|>", "<|pad|>"]
    tokenmill.train_from_iterator(texts[:100], 300, special_tokens=special, output=root / "old")
    tokenmill.train_from_iterator(
        texts, 340, pattern="cl100k", special_tokens=["<|x|>", *special], output=root / "new"
    )
    return root


PACKINGS = {
    "stream": {},
    "concat": {"mode": "concat", "context_length": 64},
    "window": {"mode": "window", "context_length": 64, "overlap": 8},
    "bestfit": {"mode": "bestfit", "context_length": 128, "columns": ["labels", "position_ids"]},
}


@pytest.mark.parametrize("packing", sorted(PACKINGS))
def test_it_equals_preparing_the_raw_text(world, tmp_path, packing):
    options = {"unit_bytes": 8000, "report": False, **PACKINGS[packing]}
    tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / "old", output=tmp_path / "a", **options
    )
    anew = tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / "new", output=tmp_path / "b", **options
    )
    made = transcode(tmp_path / "a", world / "new", tmp_path / "c")
    assert made.content_hash == anew.content_hash
    assert made.manifest.packing.view == anew.manifest.packing.view
    assert len(made.manifest.shards) > 3
    account = made.manifest.account
    assert account == replace(anew.manifest.account, special_strings=account.special_strings)


def test_special_tokens_in_the_text_come_along(world, tmp_path):
    options = {"special": "parse", "report": False}
    tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / "old", output=tmp_path / "a", **options
    )
    anew = tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / "new", output=tmp_path / "b", **options
    )
    assert transcode(tmp_path / "a", world / "new", tmp_path / "c").content_hash == anew.content_hash


def test_what_ids_cannot_tell_is_refused(world, tmp_path):
    write_word_piece(tmp_path / "words")
    (tmp_path / "c.jsonl").write_text('{"text": "the document"}\n', encoding="utf-8")
    inputs = str(tmp_path / "c.jsonl")
    tokenmill.prepare(inputs=inputs, tokenizer=tmp_path / "words", output=tmp_path / "a", report=False)
    with pytest.raises(DatasetError, match="WordPiece"):
        transcode(tmp_path / "a", world / "new", tmp_path / "b")
    tokenmill.prepare(inputs=inputs, tokenizer=world / "old", output=tmp_path / "d", report=False)
    wrong = tokenmill.Tokenizer.load(world / "new")
    with pytest.raises(DatasetError, match="different ids"):
        transcode(tmp_path / "d", world / "new", tmp_path / "e", old_tokenizer=wrong)
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "e").exists()


def several_files(world, folder):
    """Files of which some share a unit and one makes several, with ids and lines that are no documents."""
    lines = (world / "c.jsonl").read_text(encoding="utf-8").splitlines()
    folder.mkdir()
    for nth, (start, stop) in enumerate([(0, 5), (5, 300), (300, 310), (310, 400)]):
        records = [
            json.loads(line) | {"name": f"d{place}"} for place, line in enumerate(lines[start:stop], start)
        ]
        texts = [json.dumps(record, ensure_ascii=False) for record in records]
        texts.insert(2, '{"text": "   ", "name": "blank"}')
        (folder / f"{nth}.jsonl").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("packing", ["stream", "concat"])
@pytest.mark.parametrize("units", [{"unit_bytes": 8000}, {"num_shards": 3}], ids=["bytes", "number"])
def test_provenance_comes_along(world, tmp_path, packing, units):
    inputs = several_files(world, tmp_path / "in")
    options = {"report": False, "provenance": True, "id_field": "name", **units, **PACKINGS[packing]}
    tokenmill.prepare(inputs=inputs, tokenizer=world / "old", output=tmp_path / "a", **options)
    anew = tokenmill.prepare(inputs=inputs, tokenizer=world / "new", output=tmp_path / "b", **options)
    made = transcode(tmp_path / "a", world / "new", tmp_path / "c")
    assert made.content_hash == anew.content_hash
    for document in (0, 4, 5, 150, 299, len(anew) - 1):
        assert Records(made).find_origin(document) == Records(anew).find_origin(document)
    assert Records(made).find_ids(["d7"]) == Records(anew).find_ids(["d7"])
    again = transcode(tmp_path / "a", world / "new", tmp_path / "c")
    assert again.content_hash == anew.content_hash


def test_what_was_chosen_by_tokens_is_refused(world, tmp_path):
    options = {"inputs": str(world / "c.jsonl"), "max_tokens": 40, "report": False}
    tokenmill.prepare(tokenizer=world / "old", output=tmp_path / "a", **options)
    with pytest.raises(DatasetError, match="number of tokens"):
        transcode(tmp_path / "a", world / "new", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_run_is_finished_by_the_same_command(world, tmp_path):
    options = {"unit_bytes": 1000, "report": False, "provenance": True}
    inputs = str(world / "c.jsonl")
    tokenmill.prepare(inputs=inputs, tokenizer=world / "old", output=tmp_path / "a", **options)
    anew = tokenmill.prepare(inputs=inputs, tokenizer=world / "new", output=tmp_path / "b", **options)
    command = [sys.executable, "-m", "tokenmill", "dataset", "transcode", str(tmp_path / "a")]
    command += ["--tokenizer", str(world / "new"), "--output", str(tmp_path / "c")]
    receipts = tmp_path / "c" / "receipts"
    for kills in range(1, 4):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            while run.poll() is None and len(list(receipts.glob("*.json"))) < 5 * kills:
                time.sleep(0.002)
            run.kill()
    subprocess.run(command, check=True, capture_output=True)
    assert tokenmill.open(tmp_path / "c").content_hash == anew.content_hash


def with_steps(source, target, **steps):
    """A copy of a tokenizer with other steps in its tokenizer.json."""
    body = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    target.mkdir()
    (target / "tokenizer.json").write_text(json.dumps(body | steps), encoding="utf-8")
    return target


def test_a_shared_normalizer_equals_preparing_the_raw_text(world, tmp_path):
    texts = ["cafe\u0301 no\u0302tre", "\u1112\u1161\u11ab\u1100\u1173\u11af", "plain text", "e\u0301" * 20]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"text": each}) + "\n" for each in texts))
    old, new = (
        with_steps(world / name, tmp_path / name, normalizer={"type": "NFC"}) for name in ("old", "new")
    )
    for name, tokenizer in (("a", old), ("b", new)):
        tokenmill.prepare(
            str(tmp_path / "c.jsonl"), tokenizer, tmp_path / name, eos="<|endoftext|>", report=False
        )
    made = transcode(tmp_path / "a", new, tmp_path / "c")
    assert made.content_hash == tokenmill.open(tmp_path / "b").content_hash
    with pytest.raises(DatasetError, match="normalizer NFC, which the new one does not share"):
        transcode(tmp_path / "a", world / "new", tmp_path / "d")


def test_tokenizers_that_lose_text_are_refused(world, tmp_path):
    body = json.loads((world / "old" / "tokenizer.json").read_text(encoding="utf-8"))
    level = body["pre_tokenizer"]
    less = body["model"] | {
        "vocab": {key: value for key, value in body["model"]["vocab"].items() if key != "ý"}
    }
    removed = {"type": "Split", "pattern": {"String": "-"}, "behavior": "Removed", "invert": False}
    stripped = [token | {"lstrip": True} for token in body["added_tokens"]]
    cases = {
        "prefix": ({"pre_tokenizer": level | {"add_prefix_space": True}}, "adds or loses text"),
        "removed": (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [removed, level]}},
            "adds or loses",
        ),
        "bytes": ({"model": less}, "adds or loses"),
        "strip": ({"added_tokens": stripped}, "some documents decode to a text"),
    }
    (tmp_path / "c.jsonl").write_text('{"text": "a-b <|pad|> c"}\n{"text": "plain"}\n')
    for name, (steps, reason) in cases.items():
        old = with_steps(world / "old", tmp_path / name, **steps)
        output = tmp_path / f"{name}-out"
        tokenmill.prepare(str(tmp_path / "c.jsonl"), old, output, eos=False, special="parse", report=False)
        with pytest.raises(DatasetError, match=reason):
            transcode(output, world / "new", tmp_path / f"{name}-new")


def test_conversations_are_refused(world, tmp_path):
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "water"}]
    (tmp_path / "c.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    tokenmill.train_from_iterator(
        ["mill turning water"] * 9, 280, special_tokens=special, output=tmp_path / "chat"
    )
    options = {"chat_template": "chatml", "report": False}
    tokenmill.prepare(str(tmp_path / "c.jsonl"), tmp_path / "chat", tmp_path / "a", **options)
    with pytest.raises(DatasetError, match="conversations"):
        transcode(tmp_path / "a", world / "new", tmp_path / "b")
