"""Texts that break tokenizers: every scalar value, and everything that a hand-written scanner can get wrong."""

import random
import sys
import unicodedata
from functools import cache

CLASSES = {
    "letters": "a", "upper": "Z", "digits": "7", "spaces": " ", "newlines": "\n", "returns": "\r", "tabs": "\t",
    "punctuation": ".", "apostrophes": "'", "han": "中", "kana": "か", "hangul": "한", "emoji": "😀", "mark": "\u0301",
    "nbsp": "\u00a0", "ideographic_space": "\u3000", "arabic": "ع", "devanagari": "क", "titlecase": "ǅ", "modifier": "ʰ",
    "roman": "Ⅷ", "superscript": "²", "underscore": "_", "slash": "/", "nul": "\0", "zwj": "\u200d",
    "private": "\ue000", "unassigned": "\u0378",
}  # fmt: skip

# The shortest strings in which the alternatives of the known patterns compete.
EDGES = [
    "", " ", "  ", "\n", "\r\n", "\r\n\r\n \r\n", " \n ", "\n  x", "  \n  x", "x  \n", "x\n\n\ny", "a  b", "a   b ", "\t\tx", "x \t\n\r y",
    "'s", "'S", "'ll", "'Ll", "'lL", "'LL", "don't", "DON'T", "I'VE", "we'Re", "they'd've", "'", "''", "'a", "a'", "'ſ", "'\u017f",
    "x's", "X'S y'T z'RE w'VE v'M u'LL t'D", "1's", " 's", "\n's", "ab'tcd", "camelCase", "HTTPServer", "iPhone", "ÀÉîõ", "ǅabc", "aǅ",
    "1", "12", "123", "1234", "12345678901", " 1", " 1234", "1,234.56", "１２３", "٣٤٥", "²³", "Ⅷ", "½", "a1b2", "1a", "3.14", "0x1F",
    "!", "!!", " !", " !!", "!\n", "!\n\n", "!\r\n/", "//\n", "/", "a/b", "</s>", "<s>", "<|im", "[INST]", "...", "—", "“q”", "$1", "€5", "a_b", "__",
    "e\u0301", "\u0301e", "\u0301\u0302", " \u0301", "1\u0301", "क्षि", "ไทย", "안녕하세요", "한국어 텍스트", "中文，测试。", "日本語のテキスト。カタカナ", "ひらがな",
    "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇰🇷🇨🇳", "😀😀 😀", "a😀b", "\u200b", "\u200d", "\ufeff", "a\ufeffb", "\u2028", "\u2029", "\x85", "\x1c\x1d", "\u180e", "\u00a0", "a\u00a0b", "\u3000", "a\u3000b",
    "\0", "a\0b", "\x7f", "\U0010ffff", "\ufffd", "\ufffe", "\ue000", "\u0378", "\U0001e000", "\U000e0001",
    "▁", "▁▁a", "a▁b", " ▁", "<0x0A>", "Ġ", "Ċ",
    "The quick brown fox jumps over the lazy dog.", "def f(x):\n    return x ** 2  # ok\n\n\nclass A: pass\n", "https://example.com/a?b=c&d=%20#e",
]  # fmt: skip


@cache
def edges():
    return EDGES + [one + two for one in EDGES[:60] for two in ("a", " b", "\n", "'s", "1", "中")]


@cache
def runs():
    lengths = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000)
    out = [char * length for char in CLASSES.values() for length in lengths]
    return out + [f"a{char * length}b" for char in CLASSES.values() for length in (2, 3, 16, 64)]


@cache
def mixtures(count=4000, seed=7):
    """Random strings of characters of every class, short and long."""
    rng = random.Random(seed)
    chars = [
        *CLASSES.values(), *"aeiouthsn  \n'AEST019.,!?-()", "s", "ll", "don't", " the", "é", "ß", "İ", "ﬁ",
        "가", "힣", "㎏", "，",
    ]  # fmt: skip
    return ["".join(rng.choices(chars, k=rng.choice((2, 3, 4, 6, 9, 14, 30, 120)))) for _ in range(count)]


@cache
def scalars(step=1):
    """Every assigned scalar value (each `step`-th of the others), alone and between letters."""
    out = []
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code <= 0xDFFF:
            continue
        char = chr(code)
        if step > 1 and code % step and unicodedata.category(char) in {"Cn", "Co"}:
            continue
        out += (char, f"a{char}b")
    return out


def texts():
    """Everything except the scalar values."""
    return [*edges(), *runs(), *mixtures()]
