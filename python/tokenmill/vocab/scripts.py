"""Name the script of a token."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

PARTIAL = "part of a character"
# The first word of a character's Unicode name, where it names a script that users look for.
KNOWN = {
    name.upper(): name
    for name in (
        *("Latin", "Hangul", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Bengali", "Tamil"),
        *("Thai", "Georgian", "Armenian", "Ethiopic", "Khmer"),
    )
}
KNOWN |= {"CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana"}
KNOWN |= {"FULLWIDTH": "punctuation", "IDEOGRAPHIC": "punctuation"}


LETTER, DIGIT = re.compile(rb"[A-Za-z]"), re.compile(rb"[0-9]")
PLAIN = ("white space", "punctuation", "symbols", "digits")


def script_of(token: bytes) -> str:
    """Return the script of a token; letters decide over digits, digits over the rest."""
    if token.isascii():  # ten times as fast as looking at each letter
        core = token.strip()
        if not core:
            return "white space" if token else "empty"
        if core.isalpha() or LETTER.search(core):
            return "Latin"
        return "digits" if DIGIT.search(core) else "punctuation"
    try:
        scripts = [_find_character_script(character) for character in token.decode()]
    except UnicodeDecodeError:
        return PARTIAL
    found = set(scripts)
    for plain in PLAIN:
        if len(found) > 1:
            found.discard(plain)
    return found.pop() if len(found) == 1 else max(sorted(found), key=scripts.count)


def count_scripts(tokens: Iterable[tuple[bytes, int]]) -> list[dict[str, Any]]:
    """Return script, tokens, bytes and bytes per token of tokens with counts, most bytes first."""
    totals: dict[str, list[int]] = {}
    for token, count in tokens:
        total = totals.setdefault(script_of(token), [0, 0])
        total[0] += count
        total[1] += count * len(token)
    rows = [
        {"script": name, "tokens": number, "bytes": size, "bytes_per_token": size / max(number, 1)}
        for name, (number, size) in totals.items()
    ]
    return sorted(rows, key=lambda row: (-row["bytes"], row["script"]))


@lru_cache(maxsize=1 << 16)
def _find_character_script(character: str) -> str:
    category = unicodedata.category(character)
    if category.startswith(("L", "M")):
        return KNOWN.get(unicodedata.name(character, "").split(" ")[0], "other letters")
    if category.startswith("N"):
        return "digits"
    if category.startswith("Z") or character in "\t\n\r\v\f":
        return "white space"
    return "punctuation" if character.isascii() or category.startswith("P") else "symbols"
