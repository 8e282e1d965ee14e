"""SentencePiece models of every kind give the library's own ids and texts, natively or by the library itself."""

import io
import itertools
import pickle
import random
import warnings

import pytest
import sentencepiece
from torture import edges, mixtures
from vocabularies import place, spm

from tokenmill import Tokenizer

LINES = [f"the cat {i} sat on 12 mats and 34 hats, café №{i % 7} 中文 안녕" for i in range(300)]
TEXTS = [
    "", " ", "  ", "12", "the cat 12", " 12 cat", "  12  ", "a12b34", "<x>the", "<x>", "<x><x> <x>", "cats <x> 12 ", "안녕 12", "▁the", "▁", "12▁cat",
    "the the  the", "on12 on 12", "1 12 123 1234", "ＡＢ ﬁ ½ ㎏", "\tthe\n cat ", "Ⅷ中12文", "😀12😀 <x", "the cat sat", "e\u0301 é", "at the cat", "<s> a </s>", "\u3000the",
]  # fmt: skip
OWN = [
    [], ["12"], ["▁cat"], ["<x>", "34"], ["12", "▁the"], ["▁"], ["▁▁"], ["1", "12", "123"], ["the", "▁the▁cat"], ["cat▁", "▁sat"], ["t", "he"], ["中", "안녕"],
    ["12", "2▁"], ["<x>", "<x><x>", "▁<x>"],
]  # fmt: skip


def trained(**options):
    model = io.BytesIO()
    kept = {
        "model_type": "bpe", "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "hard_vocab_limit": False,
        "vocab_size": 340 if options.get("byte_fallback") else 110,
    }  # fmt: skip
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, minloglevel=2, **kept | options
    )
    return model.getvalue()


def mixed(pieces):
    rng = random.Random(3)
    parts = [*pieces, *(piece.replace("▁", " ") for piece in pieces), " ", "  ", "the", "cat", *"x12中▁😀"]
    return ["".join(rng.choices(parts, k=rng.choice([1, 2, 3, 6, 20]))) for _ in range(150)]


def assert_same(data, tmp_path, texts, strategy=None):
    path = tmp_path / "m.model"
    path.write_bytes(data)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    tokenizer = Tokenizer.load(path)
    assert strategy in {None, tokenizer.strategy.name}, tokenizer.strategy
    want = library.encode(texts)
    got = tokenizer.encode_batch(texts, special="text").to_lists()
    assert [row for row in zip(texts, got, want, strict=True) if row[1] != row[2]][:3] == []
    rng = random.Random(9)
    for ids in [*want, *([rng.randrange(len(library)) for _ in range(5)] for _ in range(100))]:
        assert tokenizer.decode(ids, skip_special_tokens=True) == library.decode(ids)
    return tokenizer


@pytest.mark.parametrize("pieces", OWN, ids=str)
@pytest.mark.parametrize(("prefix", "fallback"), [*itertools.product([True, False], repeat=2)])
def test_user_defined_pieces(pieces, prefix, fallback, tmp_path):
    data = trained(user_defined_symbols=pieces, add_dummy_prefix=prefix, byte_fallback=fallback)
    texts = [*TEXTS, *mixed(pieces)]
    tokenizer = assert_same(data, tmp_path, texts, "native" if "▁" not in pieces else None)
    if tokenizer.strategy.name == "native":
        for text in texts:
            parts = [text[at : at + 3] for at in range(0, len(text), 3)]
            assert list(tokenizer.encode_iterable(parts, special="text")) == tokenizer.encode(
                text, special="text"
            )
            ids, places = tokenizer.offsets(text, special="text")
            assert ids == tokenizer.encode(text, special="text")
            assert all(0 <= start <= end <= len(text) for start, end in places)


@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"])
@pytest.mark.parametrize("remove", [True, False], ids=["removes", "keeps"])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_every_rule_and_kind(rule, remove, kind, tmp_path):
    data = trained(
        model_type=kind,
        normalization_rule_name=rule,
        remove_extra_whitespaces=remove,
        user_defined_symbols=["12", "▁cat"],
    )
    native = (rule, remove, kind) == ("identity", False, "bpe")
    tokenizer = assert_same(
        data, tmp_path, [*TEXTS, *mixed(["12", "▁cat"])], "native" if native else "python"
    )
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode("the cat 12") == tokenizer.encode("the cat 12")


@pytest.mark.parametrize(
    "options", [{"treat_whitespace_as_suffix": True}, {"split_by_whitespace": False, "max_sentencepiece_length": 8}, {"split_digits": True},
                {"allow_whitespace_only_pieces": True}, {"character_coverage": 0.98}, {"unk_surface": "?"}], ids=str,
)  # fmt: skip
def test_other_options(options, tmp_path):
    for pieces in ([], ["12", "▁cat"]):
        assert_same(trained(user_defined_symbols=pieces, **options), tmp_path, [*TEXTS, *mixed(pieces)])


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v7"])
def test_real_models(version, tmp_path):
    data = place(*spm(version)).read_bytes()
    pieces = ["[INST]", "[/INST]", "[TOOL_CALLS]", "[IMG]", "[control_8]"]
    tokenizer = assert_same(data, tmp_path, [*TEXTS, *mixed(pieces), *edges(), *mixtures()[::13]], "native")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer.save(tmp_path / "hf", "hf")
    texts = [*TEXTS, *mixed(pieces)]
    again = Tokenizer.load(tmp_path / "hf")
    assert again.encode_batch(texts, special="text") == tokenizer.encode_batch(texts, special="text")


def test_the_reason_is_told(tmp_path):
    path = tmp_path / "m.model"
    path.write_bytes(trained(normalization_rule_name="nfkc", remove_extra_whitespaces=False))
    assert Tokenizer.load(path).strategy.reason == "normalizes text with nfkc: the library itself runs it"
    path.write_bytes(trained(model_type="unigram"))
    assert "Unigram" in Tokenizer.load(path).strategy.reason
