"""Rendered conversations to ids, each marked as learned or not; every mask is proved against its text.

Ids are those of the whole text, as transformers gives them: nothing is cut between a template's words and a
message's (`guard` has the exception).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.learned import mark
from tokenmill.base.texts import Texts
from tokenmill.chat.conversation import RecordError
from tokenmill.chat.guard import Guard, TokenPlaces, close_gaps

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.chat.script import Rendered
    from tokenmill.tokenizer.engines.backend import Special
    from tokenmill.tokenizer.tokenizer import Tokenizer


@dataclass
class EncodedChats:
    """Marked ids of some conversations, flat; those with a fault have none."""

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    faults: dict[int, RecordError] = field(default_factory=dict)
    roles: Counter[str] = field(default_factory=Counter)
    special_strings: int = 0


@dataclass(frozen=True)
class ChatEncoder:
    """Encodes what `Chat` renders. It is pickled as its tokenizer, and builds its tables where it is used."""

    tokenizer: Tokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatEncoder, (self.tokenizer,)

    @cached_property
    def guard(self) -> Guard:
        """Keeps the strings of special tokens in messages as text."""
        return Guard(self.tokenizer)

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings that only a template may write."""
        return self.guard.strings

    @cached_property
    def _widths(self) -> NDArray[np.int64]:
        """Bytes of each token."""
        engine = self.tokenizer.engine
        return np.array([len(engine.token_bytes(each) or b"") for each in range(engine.id_limit)], np.int64)

    @cached_property
    def _added(self) -> dict[int, str]:
        return {token.id: token.content for token in self.guard.controls}

    def encode(self, rendered: Sequence[Rendered], special: Special, threads: int) -> EncodedChats:
        """Ids and masks of some conversations."""
        faults: dict[int, RecordError] = {}
        everything = _flatten([each.text for each in rendered])
        written, count = ({}, 0) if special == "parse" else self.guard.find(rendered, everything)
        if special == "forbid":
            for number in written:
                problem = "a message contains a special token, and special is 'forbid'"
                faults[number] = RecordError("special_string", problem)
        plain = [number for number in range(len(rendered)) if number not in written]
        texts = _flatten([rendered[number].text for number in plain]) if written else everything
        batch = self.tokenizer.encode_batch(texts, special="parse", threads=threads)
        ids = np.asarray(batch.ids).astype(np.uint32)
        places = self._place(texts, ids, np.asarray(batch.offsets))
        if not written and places is not None:
            learned, roles = self._learn_all(rendered, texts, np.asarray(batch.offsets), places, faults)
            made = mark(ids, learned)
            offsets = np.asarray(batch.offsets, np.int64)
            return _drop_faulty(EncodedChats(made, offsets, faults, roles, count))
        by_number = (
            dict(zip(plain, np.split(ids, np.asarray(batch.offsets)[1:-1]), strict=True)) if plain else {}
        )
        return self._encode_one_by_one(rendered, by_number, written, faults, count)

    # Which tokens are learned

    def _place(self, texts: Texts, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> TokenPlaces | None:
        """The bytes of each token in all texts, if tokens are bytes of the text, one after the other."""
        ends = np.cumsum(self._widths[ids]) if len(ids) else np.empty(0, np.int64)
        bounds = np.concatenate([[0], ends])[offsets]
        if not np.array_equal(bounds, np.asarray(texts.offsets)):
            return None
        if self.tokenizer.engine.decode(ids, skip_special=False) != texts.data.tobytes():
            return None
        return TokenPlaces(np.concatenate([[0], ends[:-1]]) if len(ends) else ends, ends)

    def _learn_all(
        self,
        rendered: Sequence[Rendered],
        texts: Texts,
        offsets: NDArray[np.int64],
        places: TokenPlaces,
        faults: dict[int, RecordError],
    ) -> tuple[NDArray[np.bool_], Counter[str]]:
        data, roles = texts.data, Counter[str]()
        base = np.asarray(texts.offsets)
        counts = [len(each.learned) for each in rendered]
        owner = np.repeat(np.arange(len(rendered)), counts)
        flat = np.array([part[:2] for each in rendered for part in each.learned], np.int64).reshape(-1, 2)
        starts, ends = flat[:, 0] + base[owner], flat[:, 1] + base[owner]
        first = np.searchsorted(places.ends, starts, side="right")
        last = np.searchsorted(places.starts, ends, side="left")
        steps = np.zeros(len(places.ends) + 1, np.int32)
        np.add.at(steps, first, 1)
        np.add.at(steps, last, -1)
        names = [part.role for each in rendered for part in each.learned]
        inside = first < last
        before = np.where(inside, places.starts[np.minimum(first, len(places.starts) - 1)], starts)
        after = np.where(inside, places.ends[np.maximum(last, 1) - 1], ends)
        for place in np.flatnonzero((before < starts) | (after > ends)):
            edges = data[before[place] : starts[place]].tobytes() + data[ends[place] : after[place]].tobytes()
            if edges.strip():
                faults[int(owner[place])] = _explain_straddle(edges)
        for role in set(names):
            chosen = np.array([name == role for name in names])
            roles[role] = int((last - first)[chosen].sum())
        learned = np.cumsum(steps[:-1]) > 0
        for number in faults:
            lost = learned[offsets[number] : offsets[number + 1]]
            for part in rendered[number].learned[:1]:
                roles[part.role] -= int(lost.sum())
        return learned, roles

    def _encode_one_by_one(
        self,
        rendered: Sequence[Rendered],
        by_number: dict[int, NDArray[np.uint32]],
        written: dict[int, list[re.Match[bytes]]],
        faults: dict[int, RecordError],
        count: int,
    ) -> EncodedChats:
        parts: list[NDArray[np.uint32]] = []
        roles: Counter[str] = Counter()
        for number, each in enumerate(rendered):
            made = np.empty(0, np.uint32)
            if number not in faults:
                try:
                    own = written.get(number)
                    ids = by_number.get(number)
                    made, counted = (
                        self._learn_one(each, ids) if own is None else self._learn_written(each, own)
                    )
                    roles += counted
                except RecordError as error:
                    faults[number] = error
            parts.append(made)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return EncodedChats(np.concatenate([np.empty(0, np.uint32), *parts]), offsets, faults, roles, count)

    def _learn_written(self, each: Rendered, own: list[re.Match[bytes]]) -> tuple[Any, Counter[str]]:
        ids, places = self.guard.encode(each, own)
        return self._learn(each, ids, places, each.text.decode(), _to_characters(each))

    def _learn_one(self, each: Rendered, ids: Any) -> tuple[Any, Counter[str]]:
        texts = _flatten([each.text])
        places = self._place(texts, ids, np.array([0, len(ids)]))
        if places is not None:
            return self._learn(each, ids, places, each.text, [part[:2] for part in each.learned])
        text = each.text.decode()
        found, spans = self.tokenizer.offsets(text, special="parse")
        if not np.array_equal(found, ids):
            raise RecordError("unproved_mask", "the tokenizer gives no offsets for these ids")
        places = close_gaps(*zip(*spans, strict=True))
        return self._learn(each, ids, places, text, _to_characters(each))

    def _decode(self, ids: list[int]) -> str:
        """What ids spell; a control token is its own string, whatever else has its id."""
        parts: list[str] = []
        for string, run in groupby(ids, key=self._added.get):
            same = list(run)
            parts.append(self.tokenizer.decode(same) if string is None else string * len(same))
        return "".join(parts)

    def _learn(
        self, each: Rendered, ids: Any, places: TokenPlaces, text: bytes | str, turns: list[tuple[int, int]]
    ) -> tuple[NDArray[np.uint32], Counter[str]]:
        """Marked ids of one conversation, proved: what is learned decodes to what the text has there."""
        learned = np.zeros(len(ids), bool)
        roles: Counter[str] = Counter()
        for (start, end), part in zip(turns, each.learned, strict=True):
            chosen = (places.ends > start) & (places.starts < end)
            if not chosen.any():
                continue
            low, high = int(places.starts[chosen].min()), int(places.ends[chosen].max())
            edges = [text[low:start], text[end:high]]
            if any(edge.strip() for edge in edges):
                raise _explain_straddle(edges[0] or edges[1])
            shown = self._decode(ids[chosen].tolist())
            wanted = text[min(low, start) : max(high, end)]
            if not _is_same(shown, wanted if isinstance(wanted, str) else wanted.decode()):
                raise RecordError(
                    "unproved_mask", f"what is learned decodes to {shown[:60]!r}, not to the message"
                )
            learned |= chosen
            roles[part.role] += int(chosen.sum())
        return mark(ids, learned), roles


def _to_characters(each: Rendered) -> list[tuple[int, int]]:
    """What is learned, in characters of the text."""
    return [
        (len(each.text[: part.start].decode()), len(each.text[: part.end].decode())) for part in each.learned
    ]


def _explain_straddle(edges: str | bytes) -> RecordError:
    shown = edges.decode("utf-8", "replace") if isinstance(edges, bytes) else edges
    return RecordError(
        "unproved_mask",
        f"one token covers both words to learn and {shown.strip()[:40]!r}, which the template wrote",
    )


def _is_same(decoded: str, text: str) -> bool:
    """Equal but for the white space at the ends and what a tokenizer's normalizer does to letters."""
    if decoded.strip() == text.strip():
        return True

    def simplify(value: str) -> str:
        return "".join(unicodedata.normalize("NFKC", value).casefold().split())

    return simplify(decoded) == simplify(text)


def _flatten(texts: list[bytes]) -> Texts:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return Texts(b"".join(texts), offsets)


def _drop_faulty(made: EncodedChats) -> EncodedChats:
    """The same with nothing left of conversations that have a fault."""
    if not made.faults:
        return made
    lengths = np.diff(made.offsets)
    kept = np.ones(len(lengths), bool)
    kept[list(made.faults)] = False
    made.ids = made.ids[np.repeat(kept, lengths)]
    made.offsets = np.concatenate([[0], np.cumsum(np.where(kept, lengths, 0))]).astype(np.int64)
    return made
