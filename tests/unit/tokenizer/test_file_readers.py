"""The core's readers of vocabulary files against Python's `json` and `base64`: the same tables, or an error."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_tokenizers import write_bpe
from tokenmill import Tokenizer, TokenmillError
from tokenmill._core import Merges, Tokens, read_hf, read_tiktoken, spell, unspell

TEXT = "in the other doc, the inner\n\nthe 안녕 them"


@pytest.fixture
def folder(tmp_path):
    return write_bpe(tmp_path / "bpe")


def ranks(count=300):
    tokens = [bytes([byte]) for byte in range(256)] + [b"a" * n for n in range(2, count - 254)]
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def by_json(text):
    """Tokens by id and merges of a byte-level `tokenizer.json`, as Python reads it."""
    vocabulary = json.loads(text)["model"]["vocab"]
    merges = [merge.split(" ") for merge in json.loads(text)["model"]["merges"]]
    pairs = [(vocabulary[left], vocabulary[right]) for left, right in merges]
    return {i: unspell(token) for token, i in vocabulary.items()}, pairs


def by_base64(data):
    pairs = [line.split() for line in data.splitlines() if line]
    # Not strict, as Whisper reads its files: "=" is the empty token.
    return {int(rank): base64.b64decode(token, validate=token != b"=") for token, rank in pairs}


def test_a_tokenizer_json_is_read_by_the_core(folder):
    model = Tokenizer.load(folder).recipe.model
    assert isinstance(model.tokens, Tokens)
    assert isinstance(model.merges, Merges)
    tokens, merges = by_json((folder / "tokenizer.json").read_text())
    assert dict(enumerate(model.tokens)) == tokens
    assert list(model.merges) == merges


def test_a_tiktoken_file_is_read_by_the_core(tmp_path):
    path = tmp_path / "some.tiktoken"
    path.write_bytes(ranks())
    model = Tokenizer.load(path, pattern="gpt2").recipe.model
    assert isinstance(model.tokens, Tokens)
    assert model.rank_order == range(300)
    assert dict(enumerate(model.tokens)) == by_base64(ranks())


def test_ranks_in_any_order_are_the_same_tokenizer(tmp_path):
    path, shuffled = tmp_path / "some.tiktoken", tmp_path / "shuffled.tiktoken"
    path.write_bytes(ranks())
    shuffled.write_bytes(b"".join(sorted(ranks().splitlines(keepends=True))))
    one, other = (Tokenizer.load(each, pattern="gpt2") for each in (path, shuffled))
    assert one.fingerprint == other.fingerprint
    assert one.encode("aaaa b aaaaaaaaa") == other.encode("aaaa b aaaaaaaaa")


def test_holes_between_ranks_stay_holes(tmp_path):
    path = tmp_path / "holes.tiktoken"
    path.write_bytes(ranks() + base64.b64encode(b"ab") + b" 400\n")
    tokenizer = Tokenizer.load(path, pattern="gpt2")
    assert tokenizer.recipe.model.tokens[350] is None
    assert tokenizer.recipe.model.rank_order == (*range(300), 400)
    assert tokenizer.encode("ab") == [400]


def test_whisper_ends_its_files_with_an_empty_token(tmp_path):
    """As the multilingual vocabulary of OpenAI Whisper does: an id that no text has, and that decodes to nothing."""
    path = tmp_path / "multilingual.tiktoken"
    path.write_bytes(ranks() + b"= 300\n")
    tokenizer = Tokenizer.load(path, pattern="gpt2", special_tokens={"<|endoftext|>": 301})
    assert tokenizer.vocab_size == 302
    assert tokenizer.encode("aaaa<|endoftext|>") == [258, 301]
    assert tokenizer.decode([97, 300, 98]) == "ab"


def test_vocab_and_merges_are_read_by_the_core(folder, tmp_path):
    data = json.loads((folder / "tokenizer.json").read_text())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(data["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(data["merges"]) + "\n")
    read, whole = Tokenizer.load(tmp_path), Tokenizer.load(folder)
    assert read.recipe.model == whole.recipe.model
    assert read.encode(TEXT) == whole.encode(TEXT)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth\n")
    with pytest.raises(TokenmillError, match=r"merges.txt:3: expected two tokens separated by a space"):
        Tokenizer.load(tmp_path)
    (tmp_path / "merges.txt").write_text("t h\nt zz\n")
    with pytest.raises(TokenmillError, match=r"merges.txt:2: .*'zz' is not in the vocabulary"):
        Tokenizer.load(tmp_path)


def test_a_damaged_pickle_is_refused():
    with pytest.raises(TokenmillError, match="damaged"):
        Tokens.from_flat(b"abc", b"\1\0\0\0", b"\0\0\0\0")


@given(st.binary(max_size=80), st.integers(0, 5000), st.integers(0, 40))
def test_a_damaged_file_is_never_taken_for_another(folder_text, junk, at, cut):
    damaged = folder_text[: at % len(folder_text)] + junk + folder_text[at % len(folder_text) + cut :]
    try:
        outline, found = read_hf(damaged, "damaged")
    except TokenmillError:
        return
    data, model = json.loads(damaged), json.loads(damaged).get("model")
    if found is None:
        assert outline == damaged
        return
    assert {key: found[0].get(key) for key in model["vocab"]} == model["vocab"]
    assert len(found[1]) == len(set(map(str, model["merges"])))
    assert json.loads(outline) == {**data, "model": {**model, "vocab": {}, "merges": []}}


@pytest.fixture(scope="module")
def folder_text(tmp_path_factory):
    return (write_bpe(tmp_path_factory.mktemp("text")) / "tokenizer.json").read_bytes()


@given(st.binary(max_size=60), st.integers(0, 4000), st.integers(0, 30))
def test_a_damaged_tiktoken_file_is_refused_or_read_as_it_stands(junk, at, cut):
    data = ranks()
    damaged = data[: at % len(data)] + junk + data[at % len(data) + cut :]
    try:
        tokens = read_tiktoken(damaged, "damaged")
    except TokenmillError:
        return
    assert {i: token for i, token in enumerate(tokens) if token is not None} == by_base64(damaged)


@given(st.binary(max_size=40))
def test_every_byte_comes_back_from_its_spelling(data):
    assert len(spell(data)) == len(data)
    assert unspell(spell(data)) == data
