"""Which script a token is written in, from its bytes alone: no second pass over the text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

PARTIAL = "part of a character"
# The first word of a character's Unicode name, where it names a script that users look for.
KNOWN = {
    "LATIN": "Latin",
    "HANGUL": "Hangul",
    "CJK": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "CYRILLIC": "Cyrillic",
    "GREEK": "Greek",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari",
    "BENGALI": "Bengali",
    "TAMIL": "Tamil",
    "THAI": "Thai",
    "GEORGIAN": "Georgian",
    "ARMENIAN": "Armenian",
    "ETHIOPIC": "Ethiopic",
    "KHMER": "Khmer",
    "FULLWIDTH": "punctuation",
    "IDEOGRAPHIC": "punctuation",
}


def script_of(token: bytes) -> str:
    """`script_of("한국".encode())` -> 'Hangul'; letters decide over digits, digits over the rest."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return PARTIAL
    counts = Counter(_script(character) for character in text)
    for plain in ("white space", "punctuation", "digits"):
        if len(counts) > 1:
            counts.pop(plain, None)
    return max(sorted(counts), key=counts.__getitem__) if counts else "empty"


@lru_cache(maxsize=1 << 16)
def _script(character: str) -> str:
    category = unicodedata.category(character)
    if category.startswith(("L", "M")):
        return KNOWN.get(unicodedata.name(character, "").split(" ")[0], "other letters")
    if category.startswith("N"):
        return "digits"
    if category.startswith("Z") or character in "\t\n\r\v\f":
        return "white space"
    return "punctuation" if category.startswith("P") else "symbols"
