"""Encode chat records to ids, with a loss mask that is verified against the text of each conversation.

The ids equal those of the whole text in transformers. If a message contains the string of a special token,
the string stays text: the text is split at the tokens of its template, and the parts are encoded separately.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.texts import is_learned, mark
from tokenmill.chat.records import RecordError, RecordShape, find_field
from tokenmill.chat.render import ChatRenderer, Rendered
from tokenmill.chat.template import ChatTemplate
from tokenmill.sources.fields import ATTENTION, LABELS, LOSS_MASKS
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.tokenizer import Tokenizer

Ids = NDArray[np.uint32]
Places = NDArray[np.int64]
Offsets = list[tuple[int, int]]

IGNORED = -100  # the label of an untrained token
_LOOKS = re.compile(r"<[|｜].+[|｜]>")  # noqa: RUF001 - the wide bars are DeepSeek's own


@dataclass
class ChatBatch:
    """Marked documents of some records, the record of each, and counts of errors and dropped documents."""

    found: list[Ids] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    documents: int = 0  # including dropped ones
    errors: dict[int, RecordError] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    tokens_dropped: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)  # trained tokens by role
    # Parts of messages that the template does not write, and the first record with each.
    left_out: Counter[str] = field(default_factory=Counter)
    first_left_out: dict[str, int] = field(default_factory=dict)
    special_strings: int = 0  # in data
    text_bytes: int = 0

    @cached_property
    def ids(self) -> Ids:
        """Return the ids of all documents, end to end."""
        return np.concatenate([np.empty(0, np.uint32), *self.found])

    @cached_property
    def offsets(self) -> Places:
        """Return the start of each document in `ids`, and the end of the last."""
        return np.cumsum([0, *map(len, self.found)], dtype=np.int64)

    def add(self, record: int, ids: Ids, reason: str | None = None) -> None:
        """Add a document of a record. Drop it if `reason` is given or no token is trained."""
        self.documents += 1
        if reason is None and is_learned(ids).any():
            self.found.append(ids)
            self.records.append(record)
        else:
            reason = reason or "nothing_learned"
            self.dropped[reason] += 1
            self.tokens_dropped[reason] += len(ids)


class ChatWork:
    """Renders and encodes the records of a job of conversations; `options` are those of the renderer."""

    def __init__(
        self, tokenizer: Tokenizer, shape: RecordShape, template: ChatTemplate, train_on: str, **options: bool
    ) -> None:
        self.encoder = ChatEncoder(tokenizer)
        self.renderer = ChatRenderer(shape, template, train_on, self.encoder.strings, **options)

    def describe(self) -> list[str]:
        """Return lines that describe how conversations are read."""
        template, each = self.renderer.template, self.renderer.one_sample_per_answer
        dated = f", with the date {template.today}" if template.uses_date else ""
        trained = f"Learned: {self.renderer.train_on}{', one sample per answer' if each else ''}"
        return [f"Chat template: {template.name}{dated}", trained]

    def identify(self) -> dict[str, str | None]:
        """Return the values, besides the settings, that determine the output bytes."""
        template = self.renderer.template
        today = str(template.today) if template.uses_date else None
        return {
            "chat.template": hashlib.sha256(template.source.encode()).hexdigest(),
            "chat.chat_date": today,
        }

    def encode(self, records: Iterable[str | bytes], special: Special, *, drop_blank: bool) -> ChatBatch:
        """Render and encode records. If a document of a record fails, the whole record is an error."""
        batch = ChatBatch()
        for number, record in enumerate(records):
            try:
                documents = self.renderer.render(record)
                found = [self._encode(each, special, drop_blank=drop_blank) for each in documents]
            except RecordError as error:
                batch.errors[number] = error
                continue
            for each, (ids, roles, reason) in zip(documents, found, strict=True):
                batch.add(number, ids, reason)
                batch.roles.update(roles)
                batch.left_out.update(each.left_out)
                batch.first_left_out = dict.fromkeys(each.left_out, number) | batch.first_left_out
                if reason is None:
                    batch.text_bytes += len(each.text.encode())
                    batch.special_strings += 0 if special == "parse" else each.strings
        return batch

    def _encode(
        self, rendered: Rendered, special: Special, *, drop_blank: bool
    ) -> tuple[Ids, dict[str, int], str | None]:
        """Return marked ids, trained tokens by role, and the reason a conversation is dropped unencoded."""
        if not rendered.trained or (drop_blank and rendered.blank):
            return np.empty(0, np.uint32), {}, "blank" if rendered.trained else "no_answer"
        return *self.encoder.encode(rendered, special), None


@dataclass(frozen=True)
class ChatEncoder:
    """Encodes the conversations that `ChatRenderer` renders."""

    tokenizer: Tokenizer

    @cached_property
    def controls(self) -> dict[int, str]:
        """Return the strings of the tokens that only a template may write, by id.

        They are special, have a role in the config, or are spelled `<|…|>`. Messages may contain others, such
        as `<think>`.
        """
        recipe = self.tokenizer.recipe
        roles = [recipe.config.get(f"{role}_token") for role in ("bos", "eos", "pad")]
        names = {value.get("content") if isinstance(value, dict) else value for value in roles}
        return {
            token.id: token.content
            for token in recipe.added
            if token.special or token.content in names or _LOOKS.fullmatch(token.content)
        }

    @property
    def strings(self) -> tuple[str, ...]:
        """Return the strings of the control tokens."""
        return tuple(self.controls.values())

    @cached_property
    def _widths(self) -> Places:
        """Return the number of bytes of each token."""
        engine = self.tokenizer.engine
        return np.array([len(engine.token_bytes(each) or b"") for each in range(engine.id_limit)], np.int64)

    def encode(self, rendered: Rendered, special: Special) -> tuple[Ids, dict[str, int]]:
        """Return the marked ids of a conversation and its trained tokens by role; raises `RecordError`."""
        if not rendered.strings or special == "parse":
            ids = self.tokenizer.encode_batch([rendered.text], threads=1).ids.astype(np.uint32, copy=False)
            spans = self._measure(rendered.text, ids)
            if spans is not None:
                return self._mark(rendered, ids, *spans, proved=True)
            found, places = self.tokenizer.offsets(rendered.text, special="parse")
            if not np.array_equal(found, ids):
                raise RecordError("unproved_mask", "the tokenizer gives no offsets for these ids")
        elif special == "forbid":
            problem = "a message contains a special token, and special is 'forbid'"
            raise RecordError("special_string", problem)
        else:
            escaped, places = self._escape(rendered)
            ids = np.array(escaped, np.uint32)
        starts, ends = np.array(places, np.int64).reshape(-1, 2).T.copy()
        # A token without characters starts at the end of the previous token.
        empty = starts == ends
        starts[empty] = np.concatenate([[0], ends[:-1]])[empty]
        if (np.diff(starts) < 0).any() or (np.diff(ends) < 0).any():
            raise RecordError("unproved_mask", "the tokenizer's offsets are not in order")
        return self._mark(rendered, ids, starts, ends, proved=False)

    def _measure(self, text: str, ids: Ids) -> tuple[Places, Places] | None:
        """Return the character spans of the tokens, or None if their bytes are not those of the text."""
        data, widths = np.frombuffer(text.encode(), np.uint8), self._widths[ids]
        ends = np.cumsum(widths)
        if not len(ids) or ends[-1] != len(data) or not widths.all():
            return None
        if self.tokenizer.engine.decode(ids, skip_special=False) != data.tobytes():
            return None
        characters = np.cumsum((data & 0xC0) != 0x80)  # up to each byte of UTF-8
        return characters[ends - widths] - 1, characters[ends - 1]

    def _mark(
        self, rendered: Rendered, ids: Ids, starts: Places, ends: Places, *, proved: bool
    ) -> tuple[Ids, dict[str, int]]:
        """Mark the tokens of the trained spans; raise `RecordError` if they do not decode to the spans."""
        text, trained = rendered.text, np.zeros(len(ids), bool)
        roles: dict[str, int] = {}
        firsts = np.searchsorted(ends, [span.start for span in rendered.trained], side="right").tolist()
        lasts = np.searchsorted(starts, [span.end for span in rendered.trained], side="left").tolist()
        for (start, end, role, _), early, late in zip(rendered.trained, firsts, lasts, strict=True):
            if early >= late:
                continue
            # A token with white space inside and words outside the span is not trained.
            first = early + _is_beside(text[start : ends[early]], text[starts[early] : start])
            last = late - _is_beside(text[starts[late - 1] : end], text[end : ends[late - 1]])
            if first >= last:
                continue
            low, high = min(int(starts[first]), start), max(int(ends[last - 1]), end)
            edges = (text[low:start] + text[end:high]).strip()
            if edges:
                detail = f"one token covers both trained words and {edges[:40]!r}, which the template wrote"
                raise RecordError("unproved_mask", detail)
            shown = text[low:high] if proved else self._decode(ids[first:last].tolist())
            if not _is_same(shown, text[low:high]):
                detail = f"what is trained decodes to {shown[:60]!r}, not to the message"
                raise RecordError("unproved_mask", detail)
            trained[first:last] = True
            roles[role] = roles.get(role, 0) + last - first
        return mark(ids, trained), roles

    def _decode(self, ids: list[int]) -> str:
        """Decode ids; a control token always decodes to its string."""
        parts: list[str] = []
        for string, run in groupby(ids, key=self.controls.get):
            same = list(run)
            parts.append(self.tokenizer.decode(same) if string is None else string * len(same))
        return "".join(parts)

    @cached_property
    def _escaping(self) -> Tokenizer:
        """Return the tokenizer with every control token special, so that its string can be plain text."""
        recipe = self.tokenizer.recipe
        if all(token.special for token in recipe.added if token.content in self.strings):
            return self.tokenizer
        added = tuple(replace(t, special=True) if t.content in self.strings else t for t in recipe.added)
        hf = recipe.hf
        if hf is not None:
            listed = [
                {**item, "special": True} if item.get("content") in self.strings else item
                for item in hf.outline.get("added_tokens") or []
            ]
            hf = hf.with_added(listed)
        return Tokenizer(replace(recipe, added=added, hf=hf), self.tokenizer.strategy.name)

    def _escape(self, rendered: Rendered) -> tuple[list[int], Offsets]:
        """Return the ids of a text whose data has strings of control tokens, which stay text.

        The text is split at the tokens of the template. A copy without special strings in the data is encoded
        both whole and in parts; raises `RecordError` if the ids differ.
        """
        expected = self.tokenizer.encode(rendered.neutral, special="parse")
        for continued in (True, False):
            if self._encode_parts(rendered.neutral, rendered.specials, continued=continued)[0] == expected:
                ids, places = self._encode_parts(rendered.text, rendered.specials, continued=continued)
                if len(ids) == len(places):
                    return ids, places
        raise RecordError(
            "special_string",
            "a message contains the string of a special token, and this tokenizer encodes the text next to a "
            "special token differently, so the parts cannot be encoded separately",
        )

    def _encode_parts(self, text: str, specials: Offsets, *, continued: bool) -> tuple[list[int], Offsets]:
        """Return the ids and their character spans; parts without known offsets have no spans."""
        engine = self._escaping.engine
        ids: list[int] = []
        places: Offsets = []
        at = 0
        for start, end in [*specials, (len(text), len(text))]:
            if part := text[at:start]:
                if engine.native and continued and at > 0:
                    made = list(
                        map(int, engine.encode_part(memoryview(part.encode()), "text", continued=True))
                    )
                else:
                    made = engine.encode(part, "text", template=False)
                found, inside = self._escaping.offsets(part, special="text")
                ids += made
                places += [(at + low, at + high) for low, high in inside] if found == made else []
            if start < end:
                ids.append(self.tokenizer.added_tokens[text[start:end]])
                places.append((start, end))
            at = end
        return ids, places


def _is_beside(inside: str, outside: str) -> bool:
    """Return True if a token has words outside a span and only white space in it."""
    return not inside.strip() and bool(outside.strip())


def _is_same(decoded: str, text: str) -> bool:
    """Return True if two texts are equal except for white space, case and NFKC normalization."""
    if decoded.strip() == text.strip():
        return True

    def simplify(value: str) -> str:
        return "".join(unicodedata.normalize("NFKC", value).casefold().split())

    return simplify(decoded) == simplify(text)


class IdsWork(NamedTuple):
    """Reads records of ids: checks them, removes padding and sets the loss mask."""

    tokenizer: Tokenizer
    field: str

    def encode(self, records: Iterable[str | bytes], _special: str, *, drop_blank: bool) -> ChatBatch:
        """Return the ids of records with their loss masks."""
        batch = ChatBatch()
        for number, record in enumerate(records):
            try:
                ids = self.read(record)
            except RecordError as error:
                batch.errors[number] = error
                continue
            batch.add(number, ids, "blank" if drop_blank and not len(ids) else None)
            batch.roles["ids"] += int(is_learned(ids).sum())
        return batch

    def read(self, data: str | bytes) -> NDArray[np.uint32]:
        """Return the marked ids of one JSON record without padding; raises `RecordError`."""
        record = json.loads(data)
        ids, most = _read_numbers(find_field(record, self.field), self.field), self.tokenizer.vocab_size - 1
        if len(outside := np.flatnonzero((ids < 0) | (ids > most))):
            at = outside[0]
            detail = f"{self.field}[{at}] is {ids[at]}, expected an id of the vocabulary, 0 to {most}"
            raise RecordError("bad_ids", detail)
        masks = {
            name: _read_numbers(record[name], name, len(ids), is_mask=name != LABELS)
            for name in (*LOSS_MASKS, LABELS, ATTENTION)
            if record.get(name) is not None
        }
        attended = masks.pop(ATTENTION, np.ones_like(ids))
        labels = masks.pop(LABELS, ids)
        if len(other := np.flatnonzero((labels != ids) & (labels != IGNORED))):
            at = other[0]
            detail = f"labels[{at}] is {labels[at]}, expected {IGNORED} or {ids[at]}, the id at its place"
            raise RecordError("bad_mask", f"{detail} (labels are not shifted)")
        trained = np.logical_and.reduce([labels != IGNORED, *masks.values()])
        kept = np.flatnonzero(attended)
        inner = slice(kept[0], kept[-1] + 1) if len(kept) else slice(0)
        if not attended[inner].all():
            raise RecordError("bad_mask", f"{ATTENTION} has 0 between tokens, expected it for padding only")
        return mark(ids[inner], trained[inner])


def _read_numbers(
    value: Any, name: str, length: int | None = None, *, is_mask: bool = False
) -> NDArray[np.int64]:
    """Return a list of ids or labels, or a mask, as an array; raises `RecordError`."""
    kinds, low, high = ({int, bool}, 0, 1) if is_mask else ({int}, -(1 << 63), (1 << 63) - 1)
    reason = "bad_ids" if length is None else "bad_mask"
    is_list = isinstance(value, list) and kinds.issuperset(map(type, value))
    if not is_list or (value and not low <= min(value) <= max(value) <= high):
        expected = "0 and 1" if is_mask else "whole numbers"
        raise RecordError(reason, f"{name} is {repr(value)[:60]}, expected a list of {expected}")
    if length is not None and len(value) != length:
        raise RecordError(reason, f"{name} has {len(value)} values for {length} ids, expected one for each")
    return np.array(value, np.int64)
