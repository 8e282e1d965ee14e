"""The strings of special tokens, which only a template may write; in messages they stay text.

A text with such a string in a message is cut at the tokens that its template wrote, and what is between them
is encoded as text. That the tokenizer itself continues like this after a special token is proved for each
text, on a copy in which the strings in messages are harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmill import _core
from tokenmill.chat.records import RecordError
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tokenmill.chat.render import Rendered
    from tokenmill.tokenizer.recipe import AddedToken, Recipe

    Spans = Sequence[tuple[int, int]]

_LOOKS = re.compile(r"<[|｜].+[|｜]>")  # noqa: RUF001 - the wide bars are DeepSeek's own


def list_control_tokens(recipe: Recipe) -> tuple[AddedToken, ...]:
    """Return special tokens, those with a role in the config, and all that are spelled `<|…|>`.

    A token such as `<think>` that is not special is not one of them: messages may contain it.
    """
    roles = [recipe.config.get(f"{role}_token") for role in ("bos", "eos", "pad")]
    names = {value.get("content") if isinstance(value, dict) else value for value in roles}
    return tuple(
        token
        for token in recipe.added
        if token.special or token.content in names or _LOOKS.fullmatch(token.content)
    )


@dataclass(frozen=True)
class SpecialStrings:
    """The strings of a tokenizer's special tokens."""

    strings: tuple[str, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the longest of them; nothing if there are none."""
        longest = sorted(self.strings, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest)) or "(?!)")

    @cached_property
    def _starts(self) -> frozenset[str]:
        return frozenset(string[:size] for string in self.strings for size in range(1, len(string)))

    @cached_property
    def _ends(self) -> frozenset[str]:
        return frozenset(string[size:] for string in self.strings for size in range(1, len(string)))

    @cached_property
    def _inspect_literal(self) -> Callable[[str], tuple[int, bool, bool]]:
        """Count the tokens in a text of the template; tell if one could go on before it or behind it."""

        @lru_cache(4096)
        def inspect(text: str) -> tuple[int, bool, bool]:
            count = sum(1 for _ in self.pattern.finditer(text))
            sizes = range(1, min(len(text), max(map(len, self.strings), default=0)) + 1)
            before = any(text[:size] in self._ends for size in sizes)
            return count, before, any(text[-size:] in self._starts for size in sizes)

        return inspect

    def inspect(self, text: str, data: Spans) -> tuple[int, bool]:
        """Count the tokens outside of data; tell whether none can arise at the borders of data."""
        total, safe, at = 0, True, 0
        for start, end in [*data, (len(text), len(text))]:
            if at < start:
                count, before, behind = self._inspect_literal(text[at:start])
                total += count
                safe = safe and not (before and at > 0) and not (behind and start < len(text))
            at = end
        return total, safe


class TokenSpans(NamedTuple):
    """The characters or bytes of a text that each token covers."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True)
class SpecialTokenEscaper:
    """Finds and encodes texts with strings of control tokens in their data."""

    tokenizer: Tokenizer

    @cached_property
    def controls(self) -> tuple[AddedToken, ...]:
        """The tokens that only a template may write."""
        return list_control_tokens(self.tokenizer.recipe)

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
        """The same tokenizer with every control token special, so that its string can be text."""
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

    def find(self, rendered: Sequence[Rendered]) -> tuple[dict[int, Spans], int]:
        """Return the template's own tokens in conversations with others in their data, and count those."""
        found: dict[int, Spans] = {}
        total = 0
        for number, each in enumerate(rendered):
            offsets = np.array([0, len(each.text)], np.int64)
            if not self.strings or (each.safe and self._counter.count(each.text, offsets) == each.specials):
                continue
            matches = [match.span() for match in self._pattern.finditer(each.text)]
            own = [
                span
                for span, touches in zip(matches, _overlap(matches, each.data), strict=True)
                if not touches
            ]
            if len(own) < len(matches) or len(own) != each.specials:
                # A string that begins in data can hide one of the template behind it.
                found[number] = list(self._find_outside(each))
                total += len(matches) - len(own)
        return found, total

    def _find_outside(self, each: Rendered) -> Iterator[tuple[int, int]]:
        at = 0
        for start, end in [*each.data, (len(each.text), len(each.text))]:
            yield from (match.span() for match in self._pattern.finditer(each.text, at, start))
            at = end

    def encode(self, each: Rendered, own: Spans) -> tuple[NDArray[np.uint32], TokenSpans]:
        """Encode a text in which only the template wrote control tokens; return the characters of each id."""
        neutral = self._neutralize(each)
        expected = self.tokenizer.encode(neutral, special="parse")
        for continued in (True, False):
            if self._encode_parts(neutral, own, continued=continued)[0] == expected:
                ids, starts, ends = self._encode_parts(each.text, own, continued=continued)
                if len(ids) == len(starts):
                    return np.array(ids, np.uint32), close_gaps(starts, ends)
        raise RecordError(
            "special_string",
            "a message contains the string of a special token, and this tokenizer encodes the text beside a "
            "special token differently, so the parts cannot be encoded separately",
        )

    def _neutralize(self, each: Rendered) -> bytes:
        """Return the text with every control token's string in its data made harmless, of the same length."""
        text = np.frombuffer(each.text, np.uint8).copy()
        is_data = np.zeros(len(text), bool)
        for start, end in each.data:
            is_data[start:end] = True
        while True:
            found = [match.span() for match in self._pattern.finditer(text.tobytes())]
            inside = [(start, end) for start, end in found if is_data[start:end].any()]
            if not inside:
                return text.tobytes()
            for start, end in inside:
                text[start:end][is_data[start:end]] = ord("x")

    def _encode_parts(
        self, text: bytes, own: Spans, *, continued: bool
    ) -> tuple[list[int], list[int], list[int]]:
        """Return ids and the characters of each, which are missing where unknown."""
        by_string = {token.content.encode(): token.id for token in self.controls}
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        at = base = 0
        for start, end in [*own, (len(text), len(text))]:
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


def close_gaps(starts: Sequence[int], ends: Sequence[int]) -> TokenSpans:
    """Return spans in which a token without characters covers what was left before it."""
    begins, stops = np.array(starts, np.int64), np.array(ends, np.int64)
    empty = begins == stops
    begins[empty] = np.concatenate([[0], stops[:-1]])[empty]
    return TokenSpans(begins, stops)


def _overlap(spans: Spans, others: Spans) -> list[bool]:
    """Return whether each span shares a byte with one of the others, which are in order."""
    ends = np.array([end for _, end in others], np.int64)
    starts = np.array([start for start, _ in others], np.int64)
    low, high = np.array(spans, np.int64).reshape(-1, 2).T
    return list(np.searchsorted(ends, low, side="right") < np.searchsorted(starts, high, side="left"))
