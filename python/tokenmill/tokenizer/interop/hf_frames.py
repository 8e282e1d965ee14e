"""What a post-processor puts around texts, and the type ids that it gives, as `tokenizers` does it.

A frame is a row of parts: special ids, the first text, the second text. Parts are joined from left to right,
and where a text was cut into several, each further part of it makes one more row (its overflow).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.tokenizer.files.hf import walk

if TYPE_CHECKING:
    from tokenmill.tokenizer.recipe import Json


@dataclass(frozen=True, slots=True)
class FramePart:
    """`ids` of special tokens, or one of the two texts; `overflow_type` is that of a text's further parts."""

    what: Literal["special", "first", "second"]
    type_id: int
    ids: tuple[int, ...] = ()
    overflow_type: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of one text and those of a pair."""

    single: tuple[FramePart, ...]
    pair: tuple[FramePart, ...]

    def list_parts(self, *, pair: bool, specials: bool) -> tuple[FramePart, ...]:
        """The row to fill; without `specials` only the texts of it."""
        row = self.pair if pair else self.single
        return row if specials else tuple(part for part in row if part.what != "special")

    def count_added(self, *, pair: bool) -> int:
        """How many ids it adds."""
        return sum(len(part.ids) for part in (self.pair if pair else self.single))


_FIRST = FramePart("first", 0)
_SECOND = FramePart("second", 1, overflow_type=1)
PLAIN = Frame((_FIRST,), (_FIRST, _SECOND))


def read_frame(post_processor: Json | None) -> Frame | None:
    """The frame of a post-processor; None where it does something else."""
    frame = PLAIN
    for step in walk(post_processor):
        kind = step.get("type")
        if kind == "ByteLevel":
            continue
        if frame is not PLAIN:
            return None
        made = _MAKERS.get(str(kind), lambda _: None)(step)
        if made is None:
            return None
        frame = made
    return frame


def _read_template(step: Json) -> Frame | None:
    known = {name: tuple(entry["ids"]) for name, entry in (step.get("special_tokens") or {}).items()}
    single = [_read_piece(piece, known) for piece in step["single"]]
    pair = [_read_piece(piece, known) for piece in step["pair"]]
    texts = [part.what for part in single if part.what != "special"]
    both = [part.what for part in pair if part.what != "special"]
    if texts != ["first"] or sorted(both) != ["first", "second"]:
        return None
    return Frame(tuple(single), tuple(pair))


def _read_piece(piece: Json, known: dict[str, tuple[int, ...]]) -> FramePart:
    if "SpecialToken" in piece:
        token: Any = piece["SpecialToken"]
        return FramePart("special", token["type_id"], known[token["id"]])
    text: Any = piece["Sequence"]
    second = text["id"] == "B"
    return FramePart("second" if second else "first", text["type_id"], overflow_type=int(second))


def _read_bert(step: Json) -> Frame:
    before, after = FramePart("special", 0, (step["cls"][1],)), FramePart("special", 0, (step["sep"][1],))
    return Frame(
        (before, _FIRST, after), (before, _FIRST, after, _SECOND, FramePart("special", 1, after.ids))
    )


def _read_roberta(step: Json) -> Frame:
    """All of type 0, with two separators between the texts of a pair."""
    before, after = FramePart("special", 0, (step["cls"][1],)), FramePart("special", 0, (step["sep"][1],))
    second = FramePart("second", 0, overflow_type=0)
    return Frame((before, _FIRST, after), (before, _FIRST, after, after, second, after))


_MAKERS = {
    "TemplateProcessing": _read_template,
    "BertProcessing": _read_bert,
    "RobertaProcessing": _read_roberta,
}
