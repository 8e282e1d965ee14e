"""Blocks of documents or texts, and operations on them: item `d` is `ids[offsets[d]:offsets[d + 1]]`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from tokenmill.sources.model import Known

    Ids = NDArray[Any]
    Int64s = NDArray[np.int64]
    Part = int | NDArray[np.int32]


def make_offsets(lengths: NDArray[Any]) -> Int64s:
    """`[2, 3]` -> `[0, 2, 5]`."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def frame_documents(
    ids: Ids, offsets: Int64s, bos: int | None, eos: int | None, dtype: str
) -> tuple[Ids, Int64s]:
    """`ids, [0, 2]`, bos 8, eos 9 -> `[8, a, b, 9], [0, 4]` as `uint16` or `uint32`, in one pass."""
    framed: tuple[Ids, Int64s] = _core.frame_documents(ids, offsets, bos, eos, dtype == "uint32")
    return framed


def select_documents(ids: Ids, offsets: Int64s, kept: NDArray[np.bool_]) -> tuple[Ids, Int64s]:
    """Return the documents where `kept` is set, flat again."""
    if kept.all():
        return ids, offsets
    return copy_spans(ids, offsets[:-1][kept], np.diff(offsets)[kept])


def copy_spans(ids: Ids, starts: Int64s, lengths: Int64s) -> tuple[Ids, Int64s]:
    """Return these parts of `ids` as documents, flat again."""
    ends = make_offsets(lengths)
    out = np.empty(int(ends[-1]), dtype=ids.dtype)
    _core.copy_segments(ids, starts, ends[:-1], lengths, out)
    return out, ends


def splice(known: Known, ids: Any, offsets: Any) -> tuple[Ids, Int64s]:
    """Return all documents in order, `ids` and `offsets` in place of the stale ones."""
    fresh, ends = np.asarray(ids), np.asarray(offsets)
    lengths = np.diff(known.offsets)
    lengths[known.stale] = np.diff(ends)
    places = make_offsets(lengths)
    out = np.empty(int(places[-1]), fresh.dtype)
    new, old = known.stale, ~known.stale
    _core.copy_segments(fresh, ends[:-1], places[:-1][new], lengths[new], out)
    same = np.ascontiguousarray(known.ids, fresh.dtype)
    _core.copy_segments(same, known.offsets[:-1][old], places[:-1][old], lengths[old], out)
    return out, places


@dataclass(frozen=True, slots=True)
class Origins:
    """The sources of some documents: the part of their unit, the record's number in that part, its id.

    `part` is one number, or one for each document.
    """

    part: Part
    rows: memoryview | Int64s
    ids: pa.LargeStringArray | None = None

    def take(self, kept: NDArray[np.bool_] | None) -> Origins:
        """Return those of the documents that a mask keeps; no mask keeps all."""
        if kept is None or kept.all():
            return self
        rows = np.asarray(self.rows)[kept]
        part = self.part if isinstance(self.part, int) else self.part[kept]
        if self.ids is None:
            return Origins(part, rows)
        from tokenmill.base.arrays import mask_to_arrow  # here, since it imports Arrow

        return Origins(part, rows, self.ids.filter(mask_to_arrow(kept)))

    def slice(self, start: int, count: int) -> Origins:
        """Return those of `count` documents from `start` on."""
        ids = self.ids.slice(start, count) if self.ids is not None else None
        part = self.part if isinstance(self.part, int) else self.part[start : start + count]
        return Origins(part, self.rows[start : start + count], ids)


@lru_cache(maxsize=4)
def _make_counter(strings: tuple[str, ...]) -> _core.StringCounter:
    return _core.StringCounter(list(strings))


def count_strings(strings: tuple[str, ...], offsets: memoryview, data: memoryview) -> int:
    """Return how often strings such as `<s>` occur in texts."""
    return _make_counter(strings).count(data, offsets) if strings and len(offsets) > 1 else 0


def find_blank(offsets: memoryview, data: memoryview) -> NDArray[np.bool_]:
    """Return a mask of the texts that are empty or all white space."""
    return _core.blank_texts(data, offsets)


def has_blank(offsets: memoryview, data: memoryview) -> bool:
    """Return True if any text is blank."""
    return _core.has_blank(data, offsets)
