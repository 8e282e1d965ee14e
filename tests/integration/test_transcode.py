"""From one tokenizer's ids to another's without the raw text: the same bytes as preparing the text anew."""

import json
import random

import pytest

import tokenmill
from small_tokenizers import write_word_piece
from tokenmill.base.errors import DatasetError
from tokenmill.jobs.extend import extend
from tokenmill.jobs.transcode import transcode

WORDS = [
    "mill",
    "turning",
    "water",
    "방앗간이",
    "돌아간다",
    "물레방아",
    "磨坊",
    "在转",
    "<|endoftext|>",
    "\n\n",
    "🌊",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("transcode")
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(0, 60))) for _ in range(400)]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (root / "c.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    special = ["<|endoftext|>", "<|pad|>"]
    tokenmill.train(iter(texts[:100]), 300, special_tokens=special, output=root / "old")
    tokenmill.train(
        iter(texts), 340, pattern="cl100k", special_tokens=["<|x|>", *special], output=root / "new"
    )
    extend(root / "old", iter(texts), add=30, output=root / "longer")
    return root


PACKINGS = {
    "stream": {},
    "concat": {"mode": "concat", "context_length": 64},
    "window": {"mode": "window", "context_length": 64, "overlap": 8},
    "bestfit": {"mode": "bestfit", "context_length": 128, "columns": ["labels", "position_ids"]},
}


@pytest.mark.parametrize("packing", sorted(PACKINGS))
@pytest.mark.parametrize("new", ["new", "longer"])
def test_it_equals_preparing_the_raw_text(world, tmp_path, packing, new):
    options = {"unit_bytes": 8000, "report": False, **PACKINGS[packing]}
    tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / "old", output=tmp_path / "a", **options
    )
    anew = tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / new, output=tmp_path / "b", **options
    )
    made = transcode(tmp_path / "a", world / new, tmp_path / "c", report=False)
    assert made.content_hash == anew.content_hash
    assert len(made.manifest.shards) > 3
    account = made.manifest.account
    assert account.documents_read == account.documents_written == anew.num_documents


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
    with pytest.raises(DatasetError, match="other ids"):
        transcode(tmp_path / "d", world / "new", tmp_path / "e", old_tokenizer=wrong)
    assert not (tmp_path / "b").exists()
    assert not (tmp_path / "e").exists()


def test_it_goes_on_where_it_stopped(world, tmp_path):
    options = {"unit_bytes": 8000, "report": False}
    tokenmill.prepare(
        inputs=str(world / "c.jsonl"), tokenizer=world / "old", output=tmp_path / "a", **options
    )
    whole = transcode(tmp_path / "a", world / "new", tmp_path / "b", report=False)
    (tmp_path / "b" / "manifest.json").unlink()
    receipts = sorted((tmp_path / "b" / "receipts").iterdir())
    receipts[1].unlink()
    kept = receipts[0].stat().st_mtime_ns
    again = transcode(tmp_path / "a", world / "new", tmp_path / "b", report=False)
    assert again.content_hash == whole.content_hash
    assert receipts[0].stat().st_mtime_ns == kept
