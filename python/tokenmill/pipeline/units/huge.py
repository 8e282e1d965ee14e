"""One huge document in parts: its text is released as its ids come, so that memory never holds both whole."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.console.words import size
from tokenmill.pipeline.units.ordered import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tokenmill.pipeline.units.control import Control
    from tokenmill.pipeline.units.job import Job

logger = logging.getLogger("tokenmill.prepare")
# From here on a document is encoded in parts of this size.
HUGE = 64 << 20
PART = 8 << 20


class Framed:
    """The ids of one document in an array that grows in place, with room for a token on each side."""

    def __init__(self, dtype: str, room: int) -> None:
        self._ids: NDArray[Any] = np.empty(room, dtype=dtype)
        self.count = 0

    def append(self, ids: NDArray[Any]) -> None:
        """Add ids at the end."""
        end = 1 + self.count + len(ids)
        if end + 1 > len(self._ids):
            # No view of it exists yet; large arrays are moved by their pages, not copied.
            self._ids.resize(max(end + 1, len(self._ids) * 5 // 4), refcheck=False)
        self._ids[1 + self.count : end] = ids
        self.count += len(ids)

    def frame(self, bos: int | None, eos: int | None) -> NDArray[Any]:
        """All of them, between the tokens that are given."""
        ids, end = self._ids, 1 + self.count
        if bos is not None:
            ids[0] = bos
        if eos is not None:
            ids[end] = eos
        return ids[(1 if bos is None else 0) : end + (0 if eos is None else 1)]


def warn_over_budget(job: Job, text_bytes: int) -> None:
    """Say that a document is larger than the memory that was allowed, before its ids are made."""
    allowed = job.config.execution.memory_budget
    if allowed is not None and text_bytes > allowed:
        logger.warning(
            "A document of %s is larger than the memory budget of %s: it is held whole, and then its ids, "
            "which takes two to five times its size. Split it, or leave it out with --max-record-bytes",
            size(text_bytes),
            size(allowed),
        )


def encode_huge(
    job: Job, control: Control, data: memoryview, release: Callable[[int], None] | None
) -> Framed:
    """The ids of the text `data`; `release` gets the number of its bytes that are no longer needed."""
    # Too little room rather than too much: memory that is not filled costs nothing, but a limit may count it.
    found = Framed(job.encoded_dtype, len(data) // 4 + 2)
    work = partial(_encode, job, control, data)
    for end, ids in map_in_order(work, _cut_parts(job, data), control.threads):
        found.append(ids)
        if release is not None:
            release(end)
    return found


def _cut_parts(job: Job, data: memoryview) -> Iterator[tuple[int, int]]:
    start, size = 0, PART
    while start < len(data):
        part = data[start : start + size]
        if start + size >= len(data):
            yield start, len(data)
            return
        cut = job.encoder.engine.last_cut(part)
        if not cut:
            # No safe place to cut here: look further.
            size *= 2
            continue
        yield start, start + cut
        start, size = start + cut, PART


def _encode(job: Job, control: Control, data: memoryview, part: tuple[int, int]) -> tuple[int, NDArray[Any]]:
    control.check()
    start, end = part
    special = job.config.tokenizer.special
    return end, job.encoder.engine.encode_part(data[start:end], special, continued=start > 0)
