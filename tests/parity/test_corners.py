"""Corners of configuration where engines differ: known exactly, or left to Hugging Face's engine."""

import json

import pytest
from configurations import built
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as HF

from tokenmill import Tokenizer

TEXTS = [
    "", "a", " a", "  a b", "Hello World  x", "ÀB straße SS ß STRASSE", "x1²3 5٣", "ab\ncd\nab", "\n", "あア漢字・x", "fff 0x1F g", "k\u0301e", "K",
    "<r>  x", "<r> <r>  ", "a<r> \t b", "the cat sat", " the", "\u3000the", "ＡＢ", "e\u0301", "[(?]", "a(?b",
]  # fmt: skip


def byte_level(pattern=None, **model):
    hf = HF(models.BPE(**model))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(pattern), "isolated"))
    hf.pre_tokenizer = pre_tokenizers.Sequence(steps)
    suffix = {"end_of_word_suffix": model["end_of_word_suffix"]} if "end_of_word_suffix" in model else {}
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, **suffix
    )
    hf.train_from_iterator(TEXTS * 3, trainer)
    return hf


def assert_same(hf, texts=TEXTS, strategy=None):
    tokenizer = Tokenizer.load(hf)
    assert strategy in {None, tokenizer.strategy.name}
    want = [encoding.ids for encoding in hf.encode_batch(texts, add_special_tokens=False)]
    got = tokenizer.encode_batch(texts).to_lists()
    assert [row for row in zip(texts, got, want, strict=True) if row[1] != row[2]] == []


@pytest.mark.parametrize(
    "pattern",
    [r"(?m)^a", r"(?i:\p{Lu})", r"(?i:ss)", r"\pL", r"\PN", r"\p{Print}", r"\X", r"\p{XDigit}", r"\p{InHiragana}",
     r"\p{^L}", r"(?i)k", r"\h", r"\bt", r"[(?]+", r"\p{Han}+|\p{Hiragana}"],
)  # fmt: skip
def test_patterns_that_engines_read_differently(pattern):
    assert_same(byte_level(pattern))


def test_ignore_merges_with_a_suffix():
    hf = byte_level(end_of_word_suffix="</w>")
    data = json.loads(hf.to_str())
    data["model"]["ignore_merges"] = True
    assert_same(HF.from_str(json.dumps(data)))


@pytest.mark.parametrize("content", ["\t", "  ", "\n"])
def test_an_added_token_with_rstrip_before_a_blank_one_with_lstrip(content):
    hf = byte_level()
    hf.add_tokens([AddedToken("<r>", rstrip=True), AddedToken(content, lstrip=True, normalized=False)])
    assert_same(hf, [*TEXTS, f"<r>{content}", f"<r> {content} x", f"a {content}{content}<r>{content}"])


@pytest.mark.parametrize(
    "normalizer",
    [normalizers.Strip(), normalizers.Replace(" ", ""), normalizers.StripAccents(), normalizers.Prepend("x"), normalizers.NFKC()],
    ids=str,
)  # fmt: skip
def test_metaspace_at_the_first_character_behind_a_normalizer(normalizer):
    hf = HF(models.BPE(byte_fallback=False, unk_token="<unk>"))
    hf.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False)
    hf.train_from_iterator(TEXTS * 3, trainer)
    hf.normalizer = normalizer
    assert_same(hf)


def test_a_vocabulary_that_lacks_a_byte():
    """StarCoder's has no token for 0xF1: Hugging Face leaves such a byte out, and so do we."""
    data = json.loads(byte_level().to_str())
    absent = {token for token in data["model"]["vocab"] if token in "ñòóôõö÷øùúûüýþÿ"}
    assert len(absent) == 15
    data["model"]["vocab"] = {
        token: place for place, token in enumerate(sorted(set(data["model"]["vocab"]) - absent))
    }
    hf = HF.from_str(json.dumps(data))
    assert_same(hf, [*TEXTS, "a\U00040000b", "\U000c0000", "x\U0010ffff"], "native")


@pytest.mark.parametrize("name", ["falcon", "falcon-ended"])
@pytest.mark.parametrize("blank", [" ", "\u3000"], ids=repr)
def test_a_run_of_white_space_may_be_as_long_as_it_likes(name, blank):
    text = f"x{blank * (1_000_000 // len(blank))}y"
    assert_same(built(name), [text], "native")


def test_a_template_with_the_keys_of_another_step():
    """Command-R's has `add_prefix_space` and others, which Hugging Face passes over."""
    data = json.loads(byte_level().to_str())
    data["post_processor"] = {
        "type": "TemplateProcessing", "add_prefix_space": True, "trim_offsets": False, "use_regex": True,
        "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"a": {"id": "a", "ids": [7], "tokens": ["a"]}},
    }  # fmt: skip
    hf = HF.from_str(json.dumps(data))
    assert_same(hf, strategy="native")
    assert Tokenizer.load(hf).encode("the", add_special_tokens=True) == hf.encode("the").ids


def gemma_like():
    """Characters with byte fallback; the tab is a token and has no byte token, as in Gemma 1 and 2."""
    atoms = [*"▁abcdehlot\t\n", "▁a", "he", "▁he", "\t\t", "\t\t\t"]
    vocab = {token: place for place, token in enumerate(["<unk>", *atoms])}
    vocab |= {f"<0x{byte:02X}>": len(vocab) + byte for byte in range(256) if byte != 9}
    vocab = {token: place for place, token in enumerate(vocab)}
    merges = [("▁", "a"), ("h", "e"), ("▁", "he"), ("\t", "\t"), ("\t", "\t\t")]
    hf = HF(models.BPE(vocab, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    hf.normalizer = normalizers.Replace(" ", "▁")
    hf.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return hf


def test_a_byte_that_is_a_token_itself_needs_no_byte_token():
    assert_same(
        gemma_like(), [*TEXTS, "\t", "a\tb", "\t\t a", "\t\t\t", "a\t\t\t\tb", "he\the", "한\t글"], "native"
    )
    tokenizer = Tokenizer.load(gemma_like())
    assert tokenizer.decode(tokenizer.encode("a\tb 한")) == "a\tb 한"
