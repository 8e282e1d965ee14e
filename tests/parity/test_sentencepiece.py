"""SentencePiece models with pieces of the user's own: the library's ids, or a refusal that says what to load."""

import pytest
import sentencepiece

from tokenmill import Tokenizer, TokenmillError

TEXTS = ["12", "the cat 12", " 12 cat", "a12b34", "<x>the", "cats <x> 12 ", "안녕 12"]


@pytest.mark.parametrize("pieces", [["12"], ["▁cat"], ["<x>", "34"], ["12", "▁the"]], ids=str)
@pytest.mark.parametrize("prefix", [True, False], ids=["prefix", "no-prefix"])
@pytest.mark.parametrize("fallback", [True, False], ids=["bytes", "no-bytes"])
def test_user_defined_pieces(pieces, prefix, fallback, tmp_path):
    lines = [f"the cat {i} sat on 12 mats and 34 hats" for i in range(400)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(tmp_path / "m"), vocab_size=330 if fallback else 60,
        model_type="bpe", user_defined_symbols=pieces, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=prefix, byte_fallback=fallback, minloglevel=2,
    )  # fmt: skip
    path = tmp_path / "m.model"
    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    try:
        tokenizer = Tokenizer.load(path)
    except TokenmillError as refusal:
        assert "SentencePieceProcessor" in str(refusal)  # noqa: PT017
        assert any("▁" in piece for piece in pieces)
        return
    # Not exact yet: the dummy prefix before a piece at the very start of a text.
    texts = [text for text in TEXTS if not prefix or not text.startswith(tuple(pieces))]
    assert [tokenizer.encode(text, special="text") for text in texts] == library.encode(texts)
