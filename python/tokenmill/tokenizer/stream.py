"""Encoding a stream in bounded memory: text is held back only until the next place where a cut is proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.tokenizer.engines.text import check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill._core import Codec
    from tokenmill.tokenizer.engines.backend import Special

# Characters gathered before a cut is looked for: large enough that the search is rare.
_BLOCK = 1 << 18


def encode_stream(codec: Codec, texts: Iterable[str], special: Special) -> Iterator[int]:
    """The ids of `"".join(texts)`; without proven cuts the parts must be joined first."""
    if not codec.can_cut:
        yield from codec.encode("".join(texts), special, template=False)
        return
    continued = False
    for part, last in _cut_parts(codec, texts):
        if part or (last and not continued):
            yield from codec.encode_part(part, special, continued).tolist()
            continued = True


def _cut_parts(codec: Codec, texts: Iterable[str]) -> Iterator[tuple[bytes, bool]]:
    """Parts in UTF-8 that end at proven cuts, and the rest."""
    held: list[str] = []
    size, wanted = 0, _BLOCK
    for text in texts:
        held.append(text)
        size += len(text)
        if size < wanted:
            continue
        joined = check_text("".join(held), 0).encode()
        cut = codec.last_cut(joined)
        if cut:
            yield joined[:cut], False
        rest = joined[cut:].decode()
        held, size = [rest], len(rest)
        # Without a cut, wait until the text has doubled: the search stays linear in the whole.
        wanted = max(_BLOCK, 2 * size)
    yield check_text("".join(held), 0).encode(), True
