"""Blocks of texts to piece counts, with a sample of the texts for the summary."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill import _core
from tokenmill.training.texts import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenmill.training.options import TrainOptions

SAMPLE_BYTES = 1 << 20
_HASHES = 2.0**64


@dataclass(slots=True)
class Counted:
    """Finished counts and what they were made from."""

    counts: _core.PieceCounts
    documents: int
    bytes: int
    pieces: int
    unique: int
    spilled_bytes: int
    seconds: float
    sample: list[str] = field(default_factory=list)
    inputs: list[dict[str, Any]] = field(default_factory=list)

    def figures(self) -> dict[str, int]:
        """The numbers of a summary."""
        names = ("documents", "bytes", "pieces", "unique", "spilled_bytes")
        return {name: getattr(self, name) for name in names}


class Counting:
    """A count in progress: feed it blocks and saved counts, then finish it."""

    def __init__(self, options: TrainOptions, *, threads: int, memory_budget: int, spill_dir: str) -> None:
        special = list(options.special_tokens)
        self._counter = _core.PieceCounter(options.pattern, special, threads, memory_budget, spill_dir)
        self._held_out = options.held_out
        self._sample = Sample()
        self._started = time.perf_counter()
        self._earlier = np.zeros(3, np.uint64)
        self.inputs: list[dict[str, Any]] = []

    def add_texts(self, texts: pa.LargeStringArray) -> None:
        """Count the pieces of a block; documents that are held out only go to the sample."""
        data, offsets = flat(texts)
        if self._held_out:
            hashes = _core.hash_texts(data, offsets)[::2]
            out = hashes < np.uint64(self._held_out * _HASHES)
            self._sample.offer(texts.filter(pa.array(out)))
            data, offsets = flat(texts.filter(pa.array(~out)))
        else:
            self._sample.offer(texts)
        self._counter.count(data, offsets)

    def offer(self, texts: pa.LargeStringArray) -> None:
        """Texts for the sample alone."""
        self._sample.offer(texts)

    def add_counts(self, pieces: pa.LargeBinaryArray, counts: np.ndarray[Any, Any]) -> None:
        """Add counts that were made earlier."""
        data, offsets = flat(pieces)
        self._counter.add(data, offsets, counts)

    def add_totals(self, documents: int, size: int) -> None:
        """Remember what earlier counts were made from."""
        self._earlier += np.array([documents, size, 0], np.uint64)

    def totals(self) -> tuple[int, int, int, int]:
        """(documents, bytes, pieces, bytes of memory held) so far."""
        return self._counter.totals()

    def finish(self) -> Counted:
        """Sum everything."""
        documents, size, pieces, _ = self._counter.totals()
        counts = self._counter.finish()
        return Counted(
            counts,
            documents + int(self._earlier[0]),
            size + int(self._earlier[1]),
            pieces,
            counts.unique(),
            counts.spilled_bytes(),
            time.perf_counter() - self._started,
            self._sample.texts(),
            self.inputs,
        )


def count_all(
    counting: Counting, blocks: Iterable[pa.LargeStringArray], advance: Callable[..., None] | None = None
) -> None:
    """Feed every block, telling `advance(bytes, documents=n)` after each."""
    before = 0
    for block in blocks:
        counting.add_texts(block)
        size = counting.totals()[1]
        if advance is not None:
            advance(size - before, documents=len(block))
        before = size


class Sample:
    """Some of the texts, spread over all of them, in about a megabyte."""

    def __init__(self, limit: int = SAMPLE_BYTES) -> None:
        self._limit = limit
        self._kept: list[str] = []
        self._size = 0
        self._every = 1
        self._seen = 0

    def offer(self, texts: pa.LargeStringArray) -> None:
        """Keep the first text of every so many blocks; the step doubles whenever the room is full."""
        self._seen += 1
        if self._seen % self._every or not len(texts):
            return
        share = max(1, self._limit // 8)
        room = share
        for text in texts.slice(0, 64):
            kept = text.as_py()[:room]
            self._kept.append(kept)
            self._size += len(kept)
            room -= len(kept)
            if room <= 0:
                break
        if self._size > self._limit:
            self._kept = self._kept[::2]
            self._size = sum(map(len, self._kept))
            self._every *= 2

    def texts(self) -> list[str]:
        """What was kept."""
        return [text for text in self._kept if text]
