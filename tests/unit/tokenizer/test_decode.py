"""Ids back to bytes and texts: every form of ids gives the same, long tokens and broken text included."""

import numpy as np
import pytest

from small_tokenizers import write_bpe
from tokenmill import Tokenizer, TokenmillError
from tokenmill._core import ids_to_lists
from tokenmill.tokenizer.engines.backend import TokenBatch

TEXTS = ["in the other doc", "", "안녕 the\n", "x" * 40 + " the" * 3000]


@pytest.fixture(scope="module")
def tok(tmp_path_factory):
    return Tokenizer.load(
        write_bpe(tmp_path_factory.mktemp("bpe")), special_tokens={"<|a token of many bytes|>": 400}
    )


def test_every_form_of_ids_decodes_alike(tok):
    for text in TEXTS:
        ids = tok.encode(text)
        forms = [ids, tuple(ids), *(np.array(ids, kind) for kind in ("u2", "u4", "i8"))]
        twice = np.repeat(np.array(ids, np.uint32), 2)
        for form in (*forms, twice[::2]):
            assert tok.decode_bytes(form) == text.encode()
            assert tok.decode(form) == text


def test_a_batch_gives_its_texts_back(tok):
    batch = tok.encode_batch(TEXTS)
    assert tok.decode_batch(batch) == TEXTS
    assert tok.decode_batch(batch.to_lists()) == TEXTS
    assert tok.decode_batch(TokenBatch(batch.ids.astype(np.uint32), batch.offsets)) == TEXTS


def test_tokens_longer_than_a_slot(tok):
    text = "<|a token of many bytes|>"
    assert tok.encode(text * 3) == [400] * 3
    assert tok.decode([400, 97, 400]) == f"{text}a{text}"


def test_half_a_character_follows_errors(tok):
    half = np.array(tok.encode("안")[:1], np.uint16)
    batch = TokenBatch(np.concatenate([half, half]), np.array([0, 1, 2]))
    assert tok.decode_batch(batch) == ["�", "�"]
    assert tok.decode_batch(batch, errors="ignore") == ["", ""]
    with pytest.raises(UnicodeDecodeError):
        tok.decode_batch(batch, errors="strict")


@pytest.mark.parametrize("ids", [[1, 9999], np.array([1, 9999], np.uint16), np.array([1, 399], np.uint32)])
def test_an_unknown_id_is_named_with_its_place(tok, ids):
    with pytest.raises(TokenmillError, match=f"{int(ids[1])} at position 1"):
        tok.decode(ids)


def test_ids_below_zero_are_refused(tok):
    for ids in ([-1], np.array([-1])):
        with pytest.raises(TokenmillError, match="expected token ids"):
            tok.decode(ids)


def test_offsets_outside_the_ids_are_refused(tok):
    ids, offsets = np.arange(3, dtype=np.uint16), np.array([0, 9])
    with pytest.raises(TokenmillError, match="offsets"):
        tok.decode_batch(TokenBatch(ids, offsets))
    with pytest.raises(TokenmillError, match="offsets"):
        ids_to_lists(ids, offsets)
