"""How much longer steps can make a text: a file of a few lines must not turn a page into terabytes."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.tokenizer.recipe import Json

# Files in use have about a hundred at most: a map of SentencePiece's, then a marker of three bytes.
MOST = 1024


def check_growth(leaves: Iterable[Json], what: str, source: str) -> None:
    """Refuses steps that together can make a text more than a thousand times as long."""
    grown = 1.0
    for leaf in leaves:
        grown *= max(1.0, _measure_growth(leaf))
        if grown > MOST:
            raise TokenizerError(
                f"{source}: its {what} can make a text more than {MOST} times as long; no tokenizer needs "
                "that, so it is refused"
            )


def _measure_growth(leaf: Json) -> float:
    kind = leaf.get("type")
    if kind == "Replace":
        content = _count_bytes(leaf.get("content"))
        pattern = leaf.get("pattern")
        literal = pattern.get("String") if isinstance(pattern, dict) else None
        # A regex may match between any two characters.
        return content / _count_bytes(literal) if isinstance(literal, str) and literal else 1.0 + content
    if kind == "Prepend":
        return 1.0 + _count_bytes(leaf.get("prepend"))
    if kind == "Precompiled":
        return _find_longest(leaf.get("precompiled_charsmap"))
    # Forms of Unicode make a character at most eighteen times as long, and once.
    return 1.0


def _count_bytes(text: Any) -> int:
    return len(text.encode(errors="surrogatepass")) if isinstance(text, str) else 0


def _find_longest(charsmap: Any) -> float:
    """The longest replacement of a SentencePiece map: a trie, its size first, then strings, each with NUL."""
    try:
        data = base64.b64decode(charsmap)
    except (TypeError, ValueError, binascii.Error):
        return 1.0
    start = 4 + int.from_bytes(data[:4], "little")
    return float(max(map(len, data[start:].split(b"\0"))))
