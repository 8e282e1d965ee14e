"""Records to ids with a loss mask that is proved against the text of each conversation.

Ids are those of the whole text, as transformers gives them: nothing is cut between a template's words and a
message's, except where a message contains the string of a special token (`specials`).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokenmill.base.learned import is_learned, mark
from tokenmill.base.texts import Texts
from tokenmill.chat.records import RecordError
from tokenmill.chat.render import ChatRenderer
from tokenmill.chat.specials import SpecialTokenEscaper, TokenSpans, close_gaps

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tokenmill.chat.records import RecordShape
    from tokenmill.chat.render import Rendered
    from tokenmill.chat.template import ChatTemplate
    from tokenmill.tokenizer.engines.backend import Special
    from tokenmill.tokenizer.tokenizer import Tokenizer

NO_ANSWER = "no_answer"
NOTHING_LEARNED = "nothing_learned"
BLANK = "blank"


@dataclass
class EncodedChats:
    """Marked ids of some conversations, flat; those with an error have none."""

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    errors: dict[int, RecordError] = field(default_factory=dict)
    roles: Counter[str] = field(default_factory=Counter)
    special_strings: int = 0


@dataclass
class ChatBatch:
    """Marked documents of some records: which records they are, and what became of the others."""

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    kept: NDArray[np.bool_]
    errors: dict[int, RecordError]
    dropped: Counter[str]
    tokens_dropped: Counter[str]
    roles: Counter[str]
    special_strings: int
    text_bytes: int


class ChatWork(NamedTuple):
    """What a job of conversations does with its records."""

    renderer: ChatRenderer
    encoder: ChatEncoder

    def encode(self, records: Iterable[str | bytes], special: Special, *, drop_blank: bool) -> ChatBatch:
        """Render and encode records; those without a trained token are dropped."""
        rendered: list[Rendered] = []
        numbers: list[int] = []
        errors: dict[int, RecordError] = {}
        dropped: Counter[str] = Counter()
        count = 0
        for number, record in enumerate(records):
            count += 1
            try:
                each = self.renderer.render(record)
            except RecordError as error:
                errors[number] = error
                continue
            if not each.trained:
                dropped[NO_ANSWER] += 1
            elif drop_blank and each.blank:
                dropped[BLANK] += 1
            else:
                numbers.append(number)
                rendered.append(each)
        made = self.encoder.encode(rendered, special, 1)
        errors |= {numbers[place]: error for place, error in made.errors.items()}
        lengths = np.diff(made.offsets)
        trained = np.zeros(len(lengths), bool)
        trained[np.repeat(np.arange(len(lengths)), lengths)[is_learned(made.ids)]] = True
        dropped[NOTHING_LEARNED] = int((~trained).sum()) - len(made.errors)
        kept = np.zeros(count, bool)
        kept[np.array(numbers, np.int64)[trained]] = True
        ids = made.ids[np.repeat(trained, lengths)]
        offsets = np.concatenate([[0], np.cumsum(lengths[trained])]).astype(np.int64)
        return ChatBatch(
            ids,
            offsets,
            kept,
            errors,
            +dropped,
            +Counter({NOTHING_LEARNED: len(made.ids) - len(ids)}),
            made.roles,
            made.special_strings,
            sum(len(each.text) for each in rendered),
        )


def make_chat_work(
    tokenizer: Tokenizer, shape: RecordShape, template: ChatTemplate, train_on: str, *, replaces: bool = False
) -> ChatWork:
    """Build a renderer and an encoder that agree on the special tokens."""
    encoder = ChatEncoder(tokenizer)
    return ChatWork(ChatRenderer(shape, template, train_on, encoder.strings, replaces), encoder)


@dataclass(frozen=True)
class ChatEncoder:
    """Encodes what `ChatRenderer` renders; pickled as its tokenizer."""

    tokenizer: Tokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        return ChatEncoder, (self.tokenizer,)

    @cached_property
    def escaper(self) -> SpecialTokenEscaper:
        """Keeps the strings of special tokens in messages as text."""
        return SpecialTokenEscaper(self.tokenizer)

    @property
    def strings(self) -> tuple[str, ...]:
        """The strings that only a template may write."""
        return self.escaper.strings

    @cached_property
    def _widths(self) -> NDArray[np.int64]:
        """Bytes of each token."""
        engine = self.tokenizer.engine
        return np.array([len(engine.token_bytes(each) or b"") for each in range(engine.id_limit)], np.int64)

    @cached_property
    def _controls(self) -> dict[int, str]:
        return {token.id: token.content for token in self.escaper.controls}

    def encode(self, rendered: Sequence[Rendered], special: Special, threads: int) -> EncodedChats:
        """Return ids and masks of some conversations."""
        escaped, count = ({}, 0) if special == "parse" else self.escaper.find(rendered)
        plain = [number for number in range(len(rendered)) if number not in escaped]
        texts = _flatten([rendered[number].text for number in plain])
        batch = self.tokenizer.encode_batch(texts, special="parse", threads=threads)
        offsets = np.asarray(batch.offsets, np.int64)
        ids = np.asarray(batch.ids).astype(np.uint32)
        parts: dict[int, NDArray[np.uint32]] = {}
        errors: dict[int, RecordError] = {}
        roles: Counter[str] = Counter()
        spans = self._measure(texts, ids, offsets)
        for place, number in enumerate(plain):
            low, high = offsets[place], offsets[place + 1]
            found = None
            if spans is not None:
                base = int(texts.offsets[place])
                found = TokenSpans(spans.starts[low:high] - base, spans.ends[low:high] - base)
            try:
                parts[number] = self._mark(rendered[number], ids[low:high], found, roles)
            except RecordError as error:
                errors[number] = error
        for number, own in escaped.items():
            if special == "forbid":
                problem = "a message contains a special token, and special is 'forbid'"
                errors[number] = RecordError("special_string", problem)
                continue
            try:
                made, characters = self.escaper.encode(rendered[number], own)
                parts[number] = self._mark_characters(rendered[number], made, characters, roles)
            except RecordError as error:
                errors[number] = error
        none = np.empty(0, np.uint32)
        listed = [parts.get(number, none) for number in range(len(rendered))]
        ends = np.cumsum([0, *map(len, listed)]).astype(np.int64)
        return EncodedChats(np.concatenate([none, *listed]), ends, dict(sorted(errors.items())), roles, count)

    def _measure(
        self, texts: Texts, ids: NDArray[np.uint32], offsets: NDArray[np.int64]
    ) -> TokenSpans | None:
        """Return the bytes of each token, if tokens are the bytes of the texts, one after the other."""
        ends = np.cumsum(self._widths[ids])
        bounds = np.concatenate([[0], ends])[offsets]
        if not np.array_equal(bounds, np.asarray(texts.offsets)):
            return None
        if self.tokenizer.engine.decode(ids, skip_special=False) != texts.data.tobytes():
            return None
        return TokenSpans(np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)], ends)

    def _mark(
        self, each: Rendered, ids: NDArray[np.uint32], spans: TokenSpans | None, roles: Counter[str]
    ) -> NDArray[np.uint32]:
        """Return marked ids of a conversation; raise if a token is only partly trained."""
        if spans is None:
            spans = self._measure(_flatten([each.text]), ids, np.array([0, len(ids)]))
        if spans is None:
            found, places = self.tokenizer.offsets(each.text.decode(), special="parse")
            if not np.array_equal(found, ids):
                raise RecordError("unproved_mask", "the tokenizer gives no offsets for these ids")
            return self._mark_characters(each, ids, close_gaps(*zip(*places, strict=True)), roles)
        first, last = _select_tokens(each.text, spans, [part[:2] for part in each.trained])
        return _set_marks(each, ids, first, last, roles)

    def _mark_characters(
        self, each: Rendered, ids: NDArray[np.uint32], spans: TokenSpans, roles: Counter[str]
    ) -> NDArray[np.uint32]:
        """Return marked ids, given the characters of each, if the trained ones decode to the turns."""
        text, at, base = each.text.decode(), 0, 0
        turns = []
        for part in each.trained:
            start = base + len(each.text[at : part.start].decode())
            base = start + len(each.text[part.start : part.end].decode())
            turns.append((start, base))
            at = part.end
        first, last = _select_tokens(text, spans, turns)
        for (start, end), low, high in zip(turns, first, last, strict=True):
            if low >= high:
                continue
            shown = self._decode(ids[low:high].tolist())
            wanted = text[min(spans.starts[low], start) : max(spans.ends[high - 1], end)]
            if not _is_same(shown, wanted):
                detail = f"what is trained decodes to {shown[:60]!r}, not to the message"
                raise RecordError("unproved_mask", detail)
        return _set_marks(each, ids, first, last, roles)

    def _decode(self, ids: list[int]) -> str:
        """Decode ids; a control token is its own string, whatever else has its id."""
        parts: list[str] = []
        for string, run in groupby(ids, key=self._controls.get):
            same = list(run)
            parts.append(self.tokenizer.decode(same) if string is None else string * len(same))
        return "".join(parts)


def _select_tokens(
    text: bytes | str, spans: TokenSpans, turns: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first token of each turn and the one after its last; raise if one covers other words too."""
    if (np.diff(spans.starts) < 0).any() or (np.diff(spans.ends) < 0).any():
        raise RecordError("unproved_mask", "the tokenizer's offsets are not in order")
    starts, ends = np.array(turns, np.int64).reshape(-1, 2).T
    first = np.searchsorted(spans.ends, starts, side="right")
    last = np.searchsorted(spans.starts, ends, side="left")
    for low, high, start, end in zip(first, last, starts, ends, strict=True):
        if low < high and (spans.starts[low] < start or spans.ends[high - 1] > end):
            edges = (text[spans.starts[low] : start], text[end : spans.ends[high - 1]])
            shown = "".join(
                e.decode("utf-8", "replace") if isinstance(e, bytes) else e for e in edges
            ).strip()
            if shown:
                detail = f"one token covers both trained words and {shown[:40]!r}, which the template wrote"
                raise RecordError("unproved_mask", detail)
    return first, last


def _set_marks(
    each: Rendered,
    ids: NDArray[np.uint32],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    roles: Counter[str],
) -> NDArray[np.uint32]:
    trained = np.zeros(len(ids), bool)
    for part, low, high in zip(each.trained, first, last, strict=True):
        trained[low:high] = True
        roles[part.role] += max(0, int(high - low))
    return mark(ids, trained)


def _is_same(decoded: str, text: str) -> bool:
    """Return whether two texts differ only by outer white space and what a normalizer does."""
    if decoded.strip() == text.strip():
        return True

    def simplify(value: str) -> str:
        return "".join(unicodedata.normalize("NFKC", value).casefold().split())

    return simplify(decoded) == simplify(text)


def _flatten(texts: list[bytes]) -> Texts:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return Texts(b"".join(texts), offsets)
