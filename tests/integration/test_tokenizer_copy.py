"""A dataset keeps its tokenizer: it is text again wherever it is moved, and after the original is gone."""

import json
import shutil

import pytest

import tokenmill
from object_store import bucket, s3_endpoint  # noqa: F401 - fixtures
from small_tokenizers import write_bpe, write_word_piece
from tokenmill.base.durable import sweep_leftovers
from tokenmill.datasets.remote import COPY
from tokenmill.errors import DatasetError
from tokenmill.pipeline.convert import convert_dataset
from tokenmill.pipeline.verify import rebuild, verify_dataset
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.report.documents import describe_document
from tokenmill.tokenizer.files.kinds import copy_files

TEXTS = ["the document", "in the other", "문서 셋"]
END = "<|endoftext|>"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A dataset made with a relative path, whose tokenizer is gone."""
    monkeypatch.chdir(tmp_path)
    write_bpe(tmp_path / "tok")
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    prepare("tok", "out", inputs="a.jsonl")
    shutil.rmtree("tok")
    return tmp_path / "out"


def prepare(tokenizer, output, **options):
    options = {"provenance": True, "report": False, "verbose_level": "ERROR"} | options
    return tokenmill.prepare(tokenizer=tokenizer, output=str(output), **options)


def states(path):
    return {check.name: check.state for check in verify_dataset(path)}


def test_text_after_the_original_is_gone(made, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(made, tmp_path / "elsewhere" / "moved")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert describe_document(moved, 1)["text"] == f"in the other{END}"
    assert describe_document(moved, 2)["parts"][0]["text"] == f"문서 셋{END}"
    assert set(states(moved).values()) == {"ok"}
    new = tokenmill.train_from_iterator(TEXTS * 9, 300, special_tokens=[END], progress=False)
    again = tokenmill.transcode(moved, new, tmp_path / "new")
    assert [new.decode(ids, skip_special_tokens=True) for ids in again] == TEXTS


def test_what_is_made_of_a_dataset_keeps_it_too(made, tmp_path):
    tokenmill.remove(made, {0: "takedown"}, tmp_path / "less")
    convert_dataset(made, tmp_path / "converted", "megatron")
    rebuilt = rebuild(made, tmp_path / "again")
    assert rebuilt.content_hash == tokenmill.open(made).content_hash
    before = {path.name: path.read_bytes() for path in (made / COPY).iterdir()}
    for name in ("less", "converted", "again"):
        assert {path.name: path.read_bytes() for path in (tmp_path / name / COPY).iterdir()} == before
    assert describe_document(tmp_path / "less", 0)["text"] == f"in the other{END}"


def test_a_wrong_copy_is_noticed(made, tmp_path):
    path = made / COPY / "tokenizer.json"
    right = path.read_text(encoding="utf-8")
    path.write_text(right.replace('"t h"', '"h t"').replace('"th"', '"ht"').replace('"th e"', '"ht e"'))
    assert states(made)["tokenizer"] == "problem"
    manifest = tokenmill.open(made).manifest
    with pytest.raises(DatasetError, match=f"{COPY} is not the tokenizer .* Delete that folder"):
        load_dataset_tokenizer(made, manifest)
    path.unlink()
    assert states(made)["tokenizer"] == "problem"
    # Without the copy, the tokenizer is loaded by its name.
    shutil.rmtree(made / COPY)
    (tmp_path / "tok").mkdir()
    (tmp_path / "tok" / "tokenizer.json").write_text(right, encoding="utf-8")
    assert load_dataset_tokenizer(made, manifest).fingerprint == manifest.tokenizer.fingerprint
    assert states(made)["tokenizer"] == "ok"


def test_fresh_clears_it_and_no_content_depends_on_it(made):
    there = tokenmill.open(made).content_hash
    (made / COPY / "strange").touch()
    new = tokenmill.Tokenizer.load(write_word_piece(made.parent / "words"))
    prepare(new, made, inputs="a.jsonl", fresh=True)
    assert sorted(path.name for path in (made / COPY).iterdir()) == ["tokenizer.json"]
    write_bpe(made.parent / "tok")
    prepare("tok", made, inputs="a.jsonl", fresh=True)
    assert tokenmill.open(made).content_hash == there
    sweep_leftovers(made / COPY)


def load_again(tokenizer, folder):
    for name, data in copy_files(tokenizer.recipe).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return tokenmill.Tokenizer.load(folder, pattern="gpt2")


@pytest.mark.parametrize("kind", ["hf", "tiktoken", "vocab-merges", "minbpe", "memory", "words"])
def test_every_kind_of_file_comes_back_the_same(kind, tmp_path):
    tokenizer = tokenmill.train_from_iterator(TEXTS * 9, 280, special_tokens=[END], progress=False)
    if kind == "words":
        tokenizer = tokenmill.Tokenizer.load(write_word_piece(tmp_path / "words"))
    elif kind == "minbpe":
        (tmp_path / "mine.model").write_text("minbpe v1\n\n0\n116 104\n256 101\n")
        tokenizer = tokenmill.Tokenizer.load(tmp_path / "mine.model", pattern="gpt2")
    elif kind != "memory":
        name = {"tiktoken": "mine.tiktoken"}.get(kind, "tok")
        tokenizer.save(tmp_path / name, kind)
        tokenizer = tokenmill.Tokenizer.load(tmp_path / name, pattern="gpt2")
    assert load_again(tokenizer, tmp_path / "copy").fingerprint == tokenizer.fingerprint


def test_in_an_object_store(bucket, tmp_path):  # noqa: F811
    write_bpe(tmp_path / "tok")
    prepare(tmp_path / "tok", f"{bucket}/out", dataset=TEXTS)
    shutil.rmtree(tmp_path / "tok")
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    made = tokenmill.open(f"{bucket}/out")
    found = load_dataset_tokenizer(made.address, made.manifest)
    assert found.decode(made[0], skip_special_tokens=True) == TEXTS[0]
    assert states(f"{bucket}/out")["tokenizer"] == "ok"
