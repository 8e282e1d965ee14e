"""One row as `tokenizers.Encoding` shows it; what our core does not keep, `tokenizers` is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.tokenizer.interop.hf_frames import FramePart
    from tokenmill.tokenizer.interop.hf_truncation import Cut


# Ids, runs of `(type id, length)`, and the places of special ids.
Row = tuple[list[int], list[tuple[int, int]], list[int]]


class CoreEncoding:
    """Ids, type ids and masks of a row, and its overflow."""

    __slots__ = ("_ask", "_padded", "_specials", "_types", "ids", "n_sequences", "overflowing")

    def __init__(self, row: Row, ask: Callable[[], Any], sequences: int) -> None:
        """`ask` gives the real encoding."""
        self.ids, self._types, self._specials = row
        self._padded = (0, 0)
        self._ask = ask
        self.n_sequences = sequences
        self.overflowing: list[CoreEncoding] = []

    def pad(self, length: int, padding: dict[str, Any]) -> None:
        """Fill up to a length, on the side that the options say."""
        missing = length - len(self.ids)
        if missing <= 0:
            return
        ids, types = [padding["pad_id"]] * missing, [(padding["pad_type_id"], missing)]
        if padding["direction"] == "left":
            self.ids, self._types, self._padded = ids + self.ids, types + self._types, (missing, 0)
        else:
            self.ids, self._types, self._padded = self.ids + ids, self._types + types, (0, missing)

    @property
    def type_ids(self) -> list[int]:
        """Which text an id is of, as the template numbers them."""
        return [type_id for type_id, length in self._types for _ in range(length)]

    @property
    def attention_mask(self) -> list[int]:
        """0 for padding."""
        before, after = self._padded
        return [0] * before + [1] * (len(self.ids) - before - after) + [0] * after

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for padding and for what the template added."""
        before, after = self._padded
        mask = [1] * before + [0] * (len(self.ids) - before - after) + [1] * after
        for place in self._specials:
            mask[before + place] = 1
        return mask

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Encoding(num_tokens={len(self.ids)}, by tokenmill)"

    def __getattr__(self, name: str) -> Any:
        """Tokens, offsets, words and the methods that map between them."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._ask(), name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the real one, since nothing else holds the text."""
        return _unpickle, (self._ask(),)


def _unpickle(encoding: Any) -> Any:
    return encoding


def fill(parts: tuple[FramePart, ...], texts: list[list[int]], cuts: list[list[Cut]]) -> list[Row]:
    """The row and its overflow, in the order of `tokenizers`."""
    row: Row = ([], [], [])
    overflow: list[Row] = []
    for part in parts:
        if part.what == "special":
            here: Row = (list(part.ids), [(part.type_id, len(part.ids))], list(range(len(part.ids))))
            further: list[Row] = []
        else:
            text = int(part.what == "second")
            ids = texts[text]
            pieces = [ids if stop - start == len(ids) else ids[start:stop] for start, stop in cuts[text]]
            here = (pieces[0], [(part.type_id, len(pieces[0]))], [])
            further = [(piece, [(part.overflow_type, len(piece))], []) for piece in pieces[1:]]
        grown = [_join(old, new) for old in overflow for new in (here, *further)]
        overflow = grown + [_join(row, new) for new in further]
        row = _join(row, here)
    return [row, *overflow]


def _join(left: Row, right: Row) -> Row:
    shift = len(left[0])
    if not shift:
        return right
    return left[0] + right[0], left[1] + right[1], left[2] + [shift + place for place in right[2]]
