"""GPT-2's printable alphabet: the one-to-one map between the 256 bytes and 256 characters of a vocab.json."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


def _bytes_to_chars() -> dict[int, str]:
    """Printable Latin-1 stands for itself; the other bytes take U+0100 and on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {byte: chr(byte) for byte in printable}
    spare = 0x100
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(spare)
            spare += 1
    return table


CHAR_OF = _bytes_to_chars()
BYTE_OF = {char: byte for byte, char in CHAR_OF.items()}
_TO_LATIN = {ord(char): byte for char, byte in BYTE_OF.items()}
# Latin-1 characters that stand for no byte by themselves would otherwise pass through `translate` unseen.
_TO_LATIN.update({code: 0x110000 - 1 for code in range(256) if chr(code) not in BYTE_OF})
_TO_CHARS = dict(CHAR_OF)
_OUTSIDE = 256


def bytes_of(token: str) -> bytes | None:
    """`"Ġhi"` -> `b" hi"`; None where a character is outside the alphabet (a token that BPE cannot reach)."""
    try:
        return token.translate(_TO_LATIN).encode("latin-1")
    except UnicodeEncodeError:
        return None


def bytes_of_all(tokens: Collection[str]) -> list[bytes | None]:
    """`bytes_of` of every token, all at once: a character is one byte, so the text of all can be cut."""
    import numpy as np

    # The byte of each code point; the last entry stands for all that follow.
    byte_of = np.full(max(map(ord, BYTE_OF)) + 2, _OUTSIDE, np.uint16)
    byte_of[[ord(char) for char in BYTE_OF]] = list(BYTE_OF.values())
    text = "".join(tokens).encode("utf-32-le", "surrogatepass")
    codes = byte_of[np.minimum(np.frombuffer(text, "<u4"), len(byte_of) - 1)]
    ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    data = codes.astype(np.uint8).tobytes()
    found: list[bytes | None] = [data[start:end] for start, end in pairwise([0, *ends.tolist()])]
    for token in np.unique(np.searchsorted(ends, np.flatnonzero(codes == _OUTSIDE), side="right")):
        found[token] = None
    return found


def chars_of(token: bytes) -> str:
    """`b" hi"` -> `"Ġhi"`."""
    return token.decode("latin-1").translate(_TO_CHARS)
