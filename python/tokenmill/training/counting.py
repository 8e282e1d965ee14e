"""Blocks of texts to piece counts, with a sample of the texts for the summary."""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.platform import start_thread
from tokenmill.base.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tokenmill.settings.schema import TrainingConfig
    from tokenmill.sources import Block

SAMPLE_BYTES = 512 << 10
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
    refused: dict[str, int] = field(default_factory=dict)

    def figures(self) -> dict[str, int]:
        """What was counted, in numbers."""
        return {name: getattr(self, name) for name in ("documents", "bytes", "pieces", "unique")}


class Counting:
    """A count in progress: feed it blocks and saved counts, then finish it."""

    def __init__(
        self,
        options: TrainingConfig,
        *,
        threads: int,
        memory_budget: int,
        spill_dir: str,
        in_order: bool = False,
    ) -> None:
        """With `in_order`, which piece came first is kept, in the order in which blocks are counted."""
        special = list(options.special_tokens)
        self._counter = _core.PieceCounter(
            options.pattern, special, threads, memory_budget, spill_dir, in_order=in_order
        )
        self._held_out = options.held_out
        self._sample = KeptTexts()
        self._started = time.perf_counter()
        self._documents = self._bytes = 0  # of counts that were made earlier
        self._open = bytearray()  # the end of a part of a document, to be counted with what follows
        self._look_at = self._parts = 0
        self.inputs: list[dict[str, Any]] = []
        self._refused: Counter[str] = Counter()

    def admit(self, block: Block) -> Texts:
        """What of a block is to be counted; the sample takes its share, so blocks come here in order."""
        self._refused.update(block.refused)
        texts = block.texts
        if not self._held_out:
            self.offer(texts)
            return self._join(texts, goes_on=block.goes_on) if block.goes_on or self._open else texts
        hashes = _core.hash_texts(texts.data, texts.offsets)[::2]
        out = hashes < np.uint64(self._held_out * _HASHES)
        self.offer(texts.filter(out))
        return texts.filter(~out)

    def _join(self, texts: Texts, *, goes_on: bool) -> Texts:
        """What was left of the previous part, and this one up to a place where no piece is cut."""
        self._open += texts.data[texts.offsets[0] : texts.offsets[-1]]
        cut = len(self._open)
        if goes_on:
            # Without such a place the rest grows; it is searched again when it has doubled.
            cut = self._counter.last_cut(memoryview(self._open)) if cut >= self._look_at else 0
            self._look_at = 0 if cut else max(self._look_at, 2 * len(self._open))
            self._parts += 1
        text, self._open = self._open[:cut], self._open[cut:]
        return Texts(text, array("q", [0, cut]))

    @property
    def takes_parts(self) -> bool:
        """Whether a document may come in parts: whether it is held out depends on all of it."""
        return not self._held_out

    def count(self, texts: Texts) -> None:
        """Count the pieces of what `admit` gave; any number of threads may."""
        self._counter.count(texts.data, texts.offsets)

    def offer(self, texts: Texts) -> None:
        """Texts for the sample alone."""
        self._sample.offer(texts)

    def add_counts(self, pieces: Texts, counts: np.ndarray[Any, Any]) -> None:
        """Add counts that were made earlier."""
        self._counter.add(pieces.data, pieces.offsets, counts)

    def add_totals(self, documents: int, size: int, refused: dict[str, int]) -> None:
        """Remember what earlier counts were made from."""
        self._documents += documents
        self._bytes += size
        self._refused.update(refused)

    def totals(self) -> tuple[int, int, int, int]:
        """(documents, bytes, pieces, bytes of memory held) so far."""
        documents, size, pieces, memory = self._counter.totals()
        return max(0, documents - self._parts), size, pieces, memory

    def finish(self) -> Counted:
        """Sum everything."""
        documents, size, pieces, _ = self.totals()
        counts = self._counter.finish()
        return Counted(
            counts,
            documents + self._documents,
            size + self._bytes,
            pieces,
            counts.unique(),
            counts.spilled_bytes(),
            time.perf_counter() - self._started,
            self._sample.texts(),
            self.inputs,
            dict(self._refused),
        )


def count_all(
    counting: Counting,
    blocks: Iterable[Block],
    advance: Callable[..., None] | None = None,
    *,
    readers: int = 1,
) -> None:
    """Feed every block, calling `advance(bytes, documents=n)` along the way.

    With several `readers`, each thread takes the next block in turn and counts it while others read theirs:
    no block waits in a queue, and each is counted while the cache still has it.
    """
    feed = _Feed(counting, iter(blocks))
    helpers = [threading.Thread(target=feed.help, name=f"tokenmill-count-{i}") for i in range(1, readers)]
    try:
        for thread in helpers:
            start_thread(thread)
        while feed.step():
            feed.tell(advance)
    finally:
        feed.over = True
        for thread in helpers:
            if thread.ident is not None:
                thread.join()
        feed.close()
    if feed.failed is not None:
        raise feed.failed
    feed.tell(advance)


class _Feed:
    """Blocks on their way into a count, taken by one thread at a time."""

    def __init__(self, counting: Counting, blocks: Iterator[Block]) -> None:
        self._counting = counting
        self._blocks = blocks
        self._taking = threading.Lock()
        self._told = (0, 0)
        self.over = False
        self.failed: BaseException | None = None

    def step(self) -> bool:
        """Take a block and count it; False when there is none left."""
        with self._taking:
            block = None if self.over else next(self._blocks, None)
            if block is None:
                self.over = True
                return False
            admitted = self._counting.admit(block)
            del block
        self._counting.count(admitted)
        return True

    def help(self) -> None:
        """Step until nothing is left; an error stops everybody and is raised by the main thread."""
        try:
            while self.step():
                pass
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self.over = True
            self.failed = error

    def tell(self, advance: Callable[..., None] | None) -> None:
        """Report what came since the last time; only the main thread calls it."""
        documents, size, *_ = self._counting.totals()
        if advance is not None and (documents, size) != self._told:
            advance(size - self._told[1], documents=documents - self._told[0])
        self._told = (documents, size)

    def close(self) -> None:
        """Close the source."""
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()


class KeptTexts:
    """Some of the texts, spread over all of them, in about half a megabyte."""

    def __init__(self, limit: int = SAMPLE_BYTES) -> None:
        self._limit = limit
        self._kept: list[str] = []
        self._size = 0
        self._every = 1
        self._seen = 0

    def offer(self, texts: Texts) -> None:
        """Keep the first texts of every so many blocks; the step doubles whenever the room is full."""
        self._seen += 1
        if self._seen % self._every or not len(texts):
            return
        room = max(1, self._limit // 8)
        for place in range(min(len(texts), 64)):
            kept = texts.read_start(place, room)
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
