"""The guard against special tokens in messages: their strings stay text, whatever the file says about them.

A text with such a message is cut at the tokens that its template wrote, and what is between them is encoded
as text. That the tokenizer itself continues like this after a special token is proved for each text, on a
copy in which the strings in messages are harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmill import _core
from tokenmill.chat.conversation import RecordError
from tokenmill.chat.specials import find_control_tokens
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts
    from tokenmill.chat.script import Rendered
    from tokenmill.tokenizer.recipe import AddedToken


class TokenPlaces(NamedTuple):
    """Which characters or bytes of a text each token covers."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True)
class Guard:
    """Finds and encodes texts with strings of control tokens in their words."""

    tokenizer: Tokenizer

    @cached_property
    def controls(self) -> tuple[AddedToken, ...]:
        """The tokens that only a template may write."""
        return find_control_tokens(self.tokenizer.recipe)

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """Their strings."""
        return tuple(token.content for token in self.controls)

    @cached_property
    def _counter(self) -> Any:
        return _core.StringCounter(list(self.strings))

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        longest = sorted((each.encode() for each in self.strings), key=len, reverse=True)
        return re.compile(b"|".join(map(re.escape, longest)) or b"(?!)")

    @cached_property
    def _guarded(self) -> Tokenizer:
        """The same tokenizer, for which every control token is a special one, so that it can be text."""
        recipe, names = self.tokenizer.recipe, set(self.strings)
        if all(token.special for token in self.controls):
            return self.tokenizer
        added = tuple(
            replace(token, special=True) if token.content in names else token for token in recipe.added
        )
        hf = recipe.hf
        if hf is not None:
            listed = [
                {**item, "special": True} if item.get("content") in names else item
                for item in hf.outline.get("added_tokens") or []
            ]
            hf = hf.with_added(listed)
        return Tokenizer(replace(recipe, added=added, hf=hf), self.tokenizer.strategy.name)

    def find(
        self, rendered: Sequence[Rendered], texts: Texts
    ) -> tuple[dict[int, list[re.Match[bytes]]], int]:
        """Conversations with control tokens' strings in their words: the matches that the template wrote."""
        if not self.strings:
            return {}, 0
        expected = sum(each.specials for each in rendered)
        if all(each.safe for each in rendered) and self._counter.count(texts.data, texts.offsets) == expected:
            return {}, 0
        found: dict[int, list[re.Match[bytes]]] = {}
        total = 0
        for number, each in enumerate(rendered):
            matches = list(self._pattern.finditer(each.text))
            own = [match for match in matches if not _overlaps(match, each.words)]
            if len(own) < len(matches) or len(own) != each.specials:
                # A string that begins in words can hide one of the template behind it.
                found[number] = list(_find_outside(self._pattern, each))
                total += len(matches) - len(own)
        return found, total

    def encode(self, each: Rendered, own: list[re.Match[bytes]]) -> tuple[NDArray[np.uint32], TokenPlaces]:
        """Ids of a text whose control tokens are only those that the template wrote, and their characters."""
        neutral = _neutralize(each, self._pattern)
        expected = self.tokenizer.encode(neutral, special="parse")
        for continued in (True, False):
            if self._encode_stretches(neutral, own, continued=continued)[0] == expected:
                ids, starts, ends = self._encode_stretches(each.text, own, continued=continued)
                if len(ids) == len(starts):
                    return np.array(ids, np.uint32), close_gaps(starts, ends)
        raise RecordError(
            "special_string",
            "a message contains the string of a special token, and this tokenizer encodes the text beside a "
            "special token differently, so the parts cannot be encoded separately",
        )

    def _encode_stretches(
        self, text: bytes, own: list[re.Match[bytes]], *, continued: bool
    ) -> tuple[list[int], list[int], list[int]]:
        """Ids and the characters of each, cut at control tokens; places are missing where unknown."""
        by_string = {token.content.encode(): token.id for token in self.controls}
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        at = base = 0
        for start, end in [*((match.start(), match.end()) for match in own), (len(text), len(text))]:
            part = text[at:start].decode()
            if part:
                made = self._encode_text(text[at:start], continued=continued and at > 0)
                found, places = self._guarded.offsets(part, special="text")
                ids += made
                if found == made:
                    starts += [base + place for place, _ in places]
                    ends += [base + place for _, place in places]
                base += len(part)
            if end > start:
                ids.append(by_string[text[start:end]])
                starts.append(base)
                base += len(text[start:end].decode())
                ends.append(base)
            at = end
        return ids, starts, ends

    def _encode_text(self, part: bytes, *, continued: bool) -> list[int]:
        engine = self._guarded.engine
        if engine.takes_parts and continued:
            return list(map(int, engine.encode_part(memoryview(part), "text", continued=True)))
        return engine.encode(part.decode(), "text", template=False)


def close_gaps(starts: Sequence[int], ends: Sequence[int]) -> TokenPlaces:
    """Places in which a token that is said to cover nothing covers what was left before it."""
    begins, stops = np.array(starts, np.int64), np.array(ends, np.int64)
    empty = begins == stops
    begins[empty] = np.concatenate([[0], stops[:-1]])[empty]
    return TokenPlaces(begins, stops)


def _overlaps(match: re.Match[bytes], words: Sequence[tuple[int, int]]) -> bool:
    return any(match.start() < end and match.end() > start for start, end in words)


def _find_outside(pattern: re.Pattern[bytes], each: Rendered) -> Iterator[re.Match[bytes]]:
    """Matches in what the template wrote, each stretch looked at alone."""
    at = 0
    for start, end in [*each.words, (len(each.text), len(each.text))]:
        yield from (match for match in pattern.finditer(each.text, at, start) if match.end() <= start)
        at = end


def _neutralize(each: Rendered, pattern: re.Pattern[bytes]) -> bytes:
    """The text with every control token's string in its words made harmless, byte for byte as long."""
    text = bytearray(each.text)
    while found := next((m for m in pattern.finditer(bytes(text)) if _overlaps(m, each.words)), None):
        for start, end in each.words:
            for at in range(max(start, found.start()), min(end, found.end())):
                text[at] = ord("x")
    return bytes(text)
