"""The core's readers of vocabulary files against the careful ones in Python: the same recipe, or None."""

import base64
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_tokenizers import write_bpe
from tokenmill import Tokenizer, TokenmillError
from tokenmill._core import Merges, Tokens, read_hf, read_tiktoken
from tokenmill.engine.files import hf_json, tiktoken
from tokenmill.engine.files.hf_text import HfText
from tokenmill.engine.pre_tokenizer import pre_tokenizer_of

TEXT = "in the other doc, the inner\n\nthe 안녕 them"


@pytest.fixture
def folder(tmp_path):
    return write_bpe(tmp_path / "bpe")


def careful(path):
    return Tokenizer(hf_json.load_file(path / "tokenizer.json"))


def ranks(count=300):
    tokens = [bytes([byte]) for byte in range(256)] + [b"a" * n for n in range(2, count - 254)]
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def test_a_tokenizer_json_is_read_by_the_core(folder):
    quick = Tokenizer.load(folder)
    assert isinstance(quick.recipe.model.tokens, Tokens)
    assert isinstance(quick.recipe.model.merges, Merges)
    slow = careful(folder)
    assert isinstance(slow.recipe.model.merges, tuple)
    assert quick.encode(TEXT) == slow.encode(TEXT)
    assert quick.fingerprint == slow.fingerprint
    assert tuple(quick.recipe.model.tokens) == slow.recipe.model.tokens
    assert tuple(quick.recipe.model.merges) == slow.recipe.model.merges
    assert quick.recipe.hf == slow.recipe.hf


def test_both_readers_give_a_tiktoken_file_the_same_recipe(tmp_path):
    path = tmp_path / "some.tiktoken"
    path.write_bytes(ranks())
    quick = Tokenizer.load(path, pattern="gpt2")
    pairs = tiktoken.parse(path.read_bytes(), "some")
    slow = Tokenizer(tiktoken.from_ranks(pairs, pre_tokenizer_of("gpt2"), None, "some"))
    assert isinstance(quick.recipe.model.tokens, Tokens)
    assert quick.recipe.model.rank_order == range(300)
    assert quick.fingerprint == slow.fingerprint
    assert quick.encode("aaaa b aaaaaaaaa") == slow.encode("aaaa b aaaaaaaaa")


def test_holes_between_ranks_stay_holes(tmp_path):
    path = tmp_path / "holes.tiktoken"
    path.write_bytes(ranks() + base64.b64encode(b"ab") + b" 400\n")
    quick = Tokenizer.load(path, pattern="gpt2")
    assert quick.recipe.model.tokens[350] is None
    assert quick.recipe.model.rank_order == (*range(300), 400)
    assert quick.encode("ab") == [400]
    pairs = tiktoken.parse(path.read_bytes(), "holes")
    slow = tiktoken.from_ranks(pairs, pre_tokenizer_of("gpt2"), None, "holes")
    assert quick.fingerprint == Tokenizer(slow).fingerprint


def test_tokens_and_merges_are_sequences(folder):
    model = Tokenizer.load(folder).recipe.model
    assert model.tokens[32] == b" "
    assert model.tokens[-1] == b"oc"
    assert model.tokens[:2] == [b"\0", b"\1"]
    assert len(model.merges) == 8
    assert model.merges[0] == (ord("t"), ord("h"))
    assert list(model.merges[::-1]) == list(reversed(list(model.merges)))
    for table in (model.tokens, model.merges):
        with pytest.raises(IndexError):
            table[len(table)]


def test_a_pickled_tokenizer_keeps_its_tables(folder):
    quick = Tokenizer.load(folder)
    again = pickle.loads(pickle.dumps(quick))
    assert again.recipe.model.tokens == quick.recipe.model.tokens
    assert again.recipe.model.merges == quick.recipe.model.merges
    assert again.encode(TEXT) == quick.encode(TEXT)
    with pytest.raises(TokenmillError, match="damaged"):
        Tokens.from_flat(b"abc", b"\1\0\0\0", b"\0\0\0\0")


def test_saving_writes_the_file_back(folder, tmp_path):
    quick = Tokenizer.load(folder, special_tokens={"<pad>": 300})
    quick.save(tmp_path / "saved")
    before = json.loads((folder / "tokenizer.json").read_text())
    after = json.loads((tmp_path / "saved" / "tokenizer.json").read_text())
    assert after["model"] == before["model"]
    assert [token["content"] for token in after["added_tokens"]] == ["<|endoftext|>", "<pad>"]


def test_an_outline_alone_is_whole():
    assert HfText({"model": {"type": "Unigram"}}).whole() == {"model": {"type": "Unigram"}}
    assert HfText({}).model == {}


CHANGES = [
    ('"t h"', '"t x h"', "expected two tokens"),
    ('"t h"', '"t hh"', "not in the vocabulary"),
    ('"th": 256', '"th": 255', "both"),
    ('"th": 256', '"th": 4294967295', "expected an integer"),
    ('"th": 256', '"th": "256"', "expected an integer"),
    ('"merges": [', '"merges": [,', "not valid JSON"),
]


@pytest.mark.parametrize(("old", "new", "words"), CHANGES)
def test_what_the_core_does_not_take_gets_its_own_error(folder, old, new, words):
    path = folder / "tokenizer.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert read_hf(path.read_bytes()) is None
    with pytest.raises(TokenmillError, match=words):
        Tokenizer.load(folder)


def test_a_fault_outside_the_large_parts_is_found_in_the_whole_file(folder):
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"truncation": null', '"truncation": nul'))
    with pytest.raises(TokenmillError, match="not valid JSON"):
        Tokenizer.load(folder)


@given(st.binary(max_size=80), st.integers(0, 5000), st.integers(0, 40))
def test_a_damaged_file_is_never_taken_for_another(folder_text, junk, at, cut):
    damaged = folder_text[: at % len(folder_text)] + junk + folder_text[at % len(folder_text) + cut :]
    found = read_hf(damaged)
    if found is None:
        return
    try:
        data = json.loads(damaged)
        outline = json.loads(found[0])
    except ValueError:
        return
    model = data["model"]
    assert {key: found[1].get(key) for key in model["vocab"]} == model["vocab"]
    assert len(found[2]) == len(model["merges"])
    assert outline == {**data, "model": {**model, "vocab": {}, "merges": []}}


@pytest.fixture(scope="module")
def folder_text(tmp_path_factory):
    return (write_bpe(tmp_path_factory.mktemp("text")) / "tokenizer.json").read_bytes()


@given(st.binary(max_size=60), st.integers(0, 4000), st.integers(0, 30))
def test_a_damaged_tiktoken_file_is_refused_by_both_or_read_alike(junk, at, cut):
    data = ranks()
    damaged = data[: at % len(data)] + junk + data[at % len(data) + cut :]
    tokens = read_tiktoken(damaged)
    if tokens is None:
        return
    pairs = tiktoken.parse(damaged, "damaged")
    assert dict(enumerate(tokens)) | {rank: token for token, rank in pairs} == dict(enumerate(tokens))
    assert tokens.count == len(pairs)


def test_loading_and_encoding_a_line_needs_no_numpy(tmp_path):
    path = tmp_path / "some.tiktoken"
    path.write_bytes(ranks())
    code = (
        "import sys; from tokenmill import Tokenizer\n"
        f"tok = Tokenizer.load({str(path)!r}, pattern='gpt2')\n"
        "assert tok.decode(tok.encode('aaa b')) == 'aaa b'\n"
        "assert 'numpy' not in sys.modules and 'psutil' not in sys.modules, sorted(sys.modules)\n"
    )
    root = Path(__file__).parents[3] / "python"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
