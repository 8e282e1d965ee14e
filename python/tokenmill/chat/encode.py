"""Records to ids with a loss mask that is proved against the text of each conversation.

Ids are those of the whole text, as transformers gives them. Where a message contains the string of a special
token, which stays text, the text is cut at the tokens of its template and the parts are encoded alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tokenmill.base.texts import is_learned, mark
from tokenmill.chat.records import RecordError
from tokenmill.chat.render import ChatRenderer, make_policy
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tokenmill.chat.records import RecordShape
    from tokenmill.chat.render import Rendered
    from tokenmill.chat.template import ChatTemplate
    from tokenmill.tokenizer.engines.backend import Special
    from tokenmill.tokenizer.recipe import AddedToken, Recipe

    Ids = NDArray[np.uint32]
    Places = NDArray[np.int64]
    Offsets = list[tuple[int, int]]

NO_ANSWER = "no_answer"
NOTHING_LEARNED = "nothing_learned"
BLANK = "blank"
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


@dataclass
class ChatBatch:
    """Marked documents of some records: which records they are, and what became of the others."""

    ids: Ids
    offsets: NDArray[np.int64]
    kept: NDArray[np.bool_]
    errors: dict[int, RecordError] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    tokens_dropped: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)  # trained tokens by role
    # Parts of messages that the template does not write, and the first record with each.
    left_out: Counter[str] = field(default_factory=Counter)
    first_left_out: dict[str, int] = field(default_factory=dict)
    special_strings: int = 0  # in data
    text_bytes: int = 0


class ChatWork(NamedTuple):
    """What a job of conversations does with its records."""

    renderer: ChatRenderer
    encoder: ChatEncoder

    def encode(self, records: Iterable[str | bytes], special: Special, *, drop_blank: bool) -> ChatBatch:
        """Render and encode records; those without a trained token are dropped."""
        batch = ChatBatch(np.empty(0, np.uint32), np.zeros(1, np.int64), np.empty(0, bool))
        found: list[Ids] = []
        kept = []
        for number, record in enumerate(records):
            kept.append(False)
            try:
                rendered = self.renderer.render(record)
                batch.left_out.update(rendered.left_out)
                batch.first_left_out = dict.fromkeys(rendered.left_out, number) | batch.first_left_out
                ids = self._encode(rendered, special, batch, drop_blank=drop_blank)
                kept[-1] = len(ids) > 0
                found.append(ids)
            except RecordError as error:
                batch.errors[number] = error
        batch.ids = np.concatenate([batch.ids, *found])
        batch.offsets = np.cumsum([0, *(len(ids) for ids in found if len(ids))]).astype(np.int64)
        batch.kept = np.array(kept, bool)
        return batch

    def _encode(self, rendered: Rendered, special: Special, batch: ChatBatch, *, drop_blank: bool) -> Ids:
        """Return the ids of a conversation, or none if it is dropped."""
        none = np.empty(0, np.uint32)
        if not rendered.trained or (drop_blank and rendered.blank):
            batch.dropped[BLANK if rendered.trained else NO_ANSWER] += 1
            return none
        batch.text_bytes += len(rendered.text.encode())
        batch.special_strings += 0 if special == "parse" else rendered.strings
        ids, roles = self.encoder.encode(rendered, special)
        if not is_learned(ids).any():
            batch.dropped[NOTHING_LEARNED] += 1
            batch.tokens_dropped[NOTHING_LEARNED] += len(ids)
            return none
        batch.roles += roles
        return ids


def make_chat_work(
    tokenizer: Tokenizer, shape: RecordShape, template: ChatTemplate, train_on: str, *, replaces: bool = False
) -> ChatWork:
    """Build a renderer and an encoder that agree on the special tokens."""
    make_policy(train_on)  # raise for an invalid setting
    encoder = ChatEncoder(tokenizer)
    return ChatWork(ChatRenderer(shape, template, train_on, encoder.strings, replaces), encoder)


@dataclass(frozen=True)
class ChatEncoder:
    """Encodes what `ChatRenderer` renders."""

    tokenizer: Tokenizer

    @cached_property
    def controls(self) -> dict[int, str]:
        """Return the strings of the tokens that only a template may write, by id."""
        return {token.id: token.content for token in list_control_tokens(self.tokenizer.recipe)}

    @property
    def strings(self) -> tuple[str, ...]:
        """Their strings."""
        return tuple(self.controls.values())

    @cached_property
    def _widths(self) -> Places:
        """Bytes of each token."""
        engine = self.tokenizer.engine
        return np.array([len(engine.token_bytes(each) or b"") for each in range(engine.id_limit)], np.int64)

    @cached_property
    def _escaper(self) -> SpecialTokenEscaper:
        return SpecialTokenEscaper(self.tokenizer, {text: token for token, text in self.controls.items()})

    def encode(self, rendered: Rendered, special: Special) -> tuple[Ids, Counter[str]]:
        """Return the marked ids of a conversation and its trained tokens by role; raises `RecordError`."""
        if rendered.exact or special == "parse":
            ids = np.array(self.tokenizer.encode(rendered.text, special="parse"), np.uint32)
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
            escaped, places = self._escaper.encode(rendered)
            ids = np.array(escaped, np.uint32)
        starts, ends = np.array(places, np.int64).reshape(-1, 2).T.copy()
        # A token without characters covers what was left before it.
        empty = starts == ends
        starts[empty] = np.concatenate([[0], ends[:-1]])[empty]
        if (np.diff(starts) < 0).any() or (np.diff(ends) < 0).any():
            raise RecordError("unproved_mask", "the tokenizer's offsets are not in order")
        return self._mark(rendered, ids, starts, ends, proved=False)

    def _measure(self, text: str, ids: Ids) -> tuple[Places, Places] | None:
        """Return the characters of each token, if tokens are the bytes of the text, one after the other."""
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
    ) -> tuple[Ids, Counter[str]]:
        """Mark the tokens of the trained spans, if they decode to what the text has there."""
        text, trained = rendered.text, np.zeros(len(ids), bool)
        roles: Counter[str] = Counter()
        firsts = np.searchsorted(ends, [span.start for span in rendered.trained], side="right").tolist()
        lasts = np.searchsorted(starts, [span.end for span in rendered.trained], side="left").tolist()
        for (start, end, role, _), first, last in zip(rendered.trained, firsts, lasts, strict=True):
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
            roles[role] += last - first
        return mark(ids, trained), roles

    def _decode(self, ids: list[int]) -> str:
        """Decode ids; a control token is its own string, whatever else has its id."""
        parts: list[str] = []
        for string, run in groupby(ids, key=self.controls.get):
            same = list(run)
            parts.append(self.tokenizer.decode(same) if string is None else string * len(same))
        return "".join(parts)


def _is_same(decoded: str, text: str) -> bool:
    """Return whether two texts differ only by outer white space and what a normalizer does."""
    if decoded.strip() == text.strip():
        return True

    def simplify(value: str) -> str:
        return "".join(unicodedata.normalize("NFKC", value).casefold().split())

    return simplify(decoded) == simplify(text)


@dataclass(frozen=True)
class SpecialTokenEscaper:
    """Encodes texts with the strings of control tokens in their data, which stay text.

    That the tokenizer itself continues like this after a special token is proved for each text, on a copy in
    which the strings in data are harmless.
    """

    tokenizer: Tokenizer
    controls: dict[str, int]

    @cached_property
    def _escaping(self) -> Tokenizer:
        """Return the tokenizer with every control token special, so that its string can be text."""
        recipe = self.tokenizer.recipe
        if all(token.special for token in recipe.added if token.content in self.controls):
            return self.tokenizer
        added = tuple(replace(t, special=True) if t.content in self.controls else t for t in recipe.added)
        hf = recipe.hf
        if hf is not None:
            listed = [
                {**item, "special": True} if item.get("content") in self.controls else item
                for item in hf.outline.get("added_tokens") or []
            ]
            hf = hf.with_added(listed)
        return Tokenizer(replace(recipe, added=added, hf=hf), self.tokenizer.strategy.name)

    def encode(self, rendered: Rendered) -> tuple[list[int], Offsets]:
        """Return ids and the characters of each; raises `RecordError` if the parts depend on another."""
        neutral = rendered.neutralize()
        expected = self.tokenizer.encode(neutral, special="parse")
        for continued in (True, False):
            if self._encode_parts(neutral, rendered, continued=continued)[0] == expected:
                ids, places = self._encode_parts(rendered.text, rendered, continued=continued)
                if len(ids) == len(places):
                    return ids, places
        raise RecordError(
            "special_string",
            "a message contains the string of a special token, and this tokenizer encodes the text beside a "
            "special token differently, so the parts cannot be encoded separately",
        )

    def _encode_parts(self, text: str, rendered: Rendered, *, continued: bool) -> tuple[list[int], Offsets]:
        """Return ids and the characters of each, which are missing where unknown."""
        ids: list[int] = []
        places: Offsets = []
        at = 0
        for start, end in [*rendered.specials, (len(text), len(text))]:
            if at < start:
                made = self._encode_text(text[at:start], continued=continued and at > 0)
                found, inside = self._escaping.offsets(text[at:start], special="text")
                ids += made
                places += [(at + low, at + high) for low, high in inside] if found == made else []
            if start < end:
                ids.append(self.controls[text[start:end]])
                places.append((start, end))
            at = end
        return ids, places

    def _encode_text(self, part: str, *, continued: bool) -> list[int]:
        engine = self._escaping.engine
        if engine.takes_parts and continued:
            return list(map(int, engine.encode_part(memoryview(part.encode()), "text", continued=True)))
        return engine.encode(part, "text", template=False)
