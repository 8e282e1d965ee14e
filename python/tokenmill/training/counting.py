"""Read the corpus of a training and count its pieces, with a sample of the texts for the summary."""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import ConfigError
from tokenmill.settings.schema import SourceConfig, TrainingConfig
from tokenmill.sources import Block, InputFile, cut_ranges, discover, infer_fields, read_blocks
from tokenmill.sources.discover import keep_split
from tokenmill.sources.model import MEMORY, explain_refusal

if TYPE_CHECKING:
    import numpy as np

RANGE_BYTES = 256 << 20
# Small enough to be still in the cache when it is counted.
BLOCK_BYTES = 1 << 20
# The caller's objects are touched by one thread, so several count each block together.
MEMORY_BLOCK_BYTES = 8 << 20


@dataclass(slots=True)
class Corpus:
    """The documents of a training: files or data in memory, read as blocks."""

    files: list[InputFile] = field(default_factory=list)
    source: SourceConfig = field(default_factory=SourceConfig)
    notes: list[str] = field(default_factory=list)

    @property
    def in_memory(self) -> bool:
        """True if the documents are objects of the caller."""
        return any(file.format == MEMORY for file in self.files)

    @property
    def total_bytes(self) -> int | None:
        """Return the number of bytes to read, or None if it is unknown (compressed files, objects)."""
        if self.in_memory or any(file.compression for file in self.files):
            return None
        return sum(file.size for file in self.files)

    def identify(self) -> list[dict[str, Any]]:
        """Return the identity of each input, for provenance and for resuming."""
        if self.in_memory:
            return [{"memory": file.split or "data", "identity": file.identity} for file in self.files]
        return [{"url": file.url, "size": file.size, "identity": file.identity} for file in self.files]

    def read_blocks(self, *, parts: bool = False) -> Iterator[Block]:
        """Yield all documents in order; with `parts`, a large one may come in several blocks."""
        if self.in_memory:
            yield from self._read_memory()
            return
        for file in self.files:
            for part in cut_ranges(file, RANGE_BYTES):
                yield from read_blocks(file, part, self.source, block_bytes=BLOCK_BYTES, parts=parts)

    def _read_memory(self) -> Iterator[Block]:
        """Yield blocks of data in memory; a missing value is always skipped and counted."""
        lenient = replace(self.source, on_error="skip") if self.source.on_error == "fail" else self.source
        for file in self.files:
            for part in cut_ranges(file, RANGE_BYTES):
                for block in read_blocks(file, part, lenient, block_bytes=MEMORY_BLOCK_BYTES):
                    bad = [reject for reject in block.rejects if reject.reason != "missing_field"]
                    if bad and self.source.on_error == "fail":
                        raise explain_refusal(bad[0])
                    yield block


@contextmanager
def open_corpus(inputs: Any, source: SourceConfig, output: str | None = None) -> Iterator[Corpus]:
    """Open the files named by `inputs`, or data in memory.

    Files below `output` are never read as input.
    """
    paths = _list_paths(inputs)
    config = replace(source, inputs=tuple(paths or ()))
    with ExitStack() as stack:
        if paths is None:
            from tokenmill.sources.memory import attach  # which imports Arrow

            files = keep_split(stack.enter_context(attach(inputs, hashed=False)), config.split)
        elif not paths:
            yield Corpus()
            return
        else:
            files = discover(config, output)
        config, notes = infer_fields(config, files)
        yield Corpus(files, config, notes)


def _list_paths(inputs: Any) -> list[str] | None:
    inputs = () if inputs is None else (inputs,) if isinstance(inputs, str | PathLike) else inputs
    if isinstance(inputs, list | tuple):
        if not all(isinstance(item, str | PathLike) for item in inputs):
            raise ConfigError("a list contains file names; pass texts in memory to train_from_iterator")
        return [str(fspath(item)) for item in inputs]
    return None


SAMPLE_BYTES = 512 << 10
_HASHES = 2.0**64


@dataclass(slots=True)
class Counted:
    """Finished counts and their origin."""

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
        """Return the totals."""
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
        """Start a count; with `in_order`, record the order in which pieces first occur."""
        special = list(options.special_tokens)
        self._counter = _core.PieceCounter(
            options.pattern, special, threads, memory_budget, spill_dir, in_order=in_order
        )
        self._held_out = options.held_out
        self._sample = KeptTexts()
        self._started = time.perf_counter()
        self._documents = self._bytes = 0  # of saved counts
        self._open = bytearray()  # the end of a part of a document, counted with the next part
        self._look_at = self._parts = 0
        self.inputs: list[dict[str, Any]] = []
        self._refused: Counter[str] = Counter()

    def admit(self, block: Block) -> Texts:
        """Return the texts of a block that are to be counted; call it for the blocks in order."""
        self._refused.update(block.refused)
        texts = block.texts
        if not self._held_out:
            self.offer(texts)
            return self._join(texts, goes_on=block.goes_on) if block.goes_on or self._open else texts
        hashes = _core.hash_texts(texts.data, texts.offsets)[::2]
        out = hashes < int(self._held_out * _HASHES)
        self.offer(texts.filter(out))
        return texts.filter(~out)

    def _join(self, texts: Texts, *, goes_on: bool) -> Texts:
        """Join the rest of the previous part with this one, up to an offset that splits no piece."""
        self._open += texts.data[texts.offsets[0] : texts.offsets[-1]]
        cut = len(self._open)
        if goes_on:
            # Without such an offset the rest grows; it is searched again when it has doubled.
            cut = self._counter.last_cut(memoryview(self._open)) if cut >= self._look_at else 0
            self._look_at = 0 if cut else max(self._look_at, 2 * len(self._open))
            self._parts += 1
        text, self._open = self._open[:cut], self._open[cut:]
        return Texts(text, array("q", [0, cut]))

    @property
    def takes_parts(self) -> bool:
        """True if a document may come in parts; a held-out share is decided by the whole text."""
        return not self._held_out

    def count(self, texts: Texts) -> None:
        """Count the pieces of the texts that `admit` returned; thread-safe."""
        self._counter.count(texts.data, texts.offsets)

    def offer(self, texts: Texts) -> None:
        """Add texts to the sample only."""
        self._sample.offer(texts)

    def add_counts(self, pieces: Texts, counts: np.ndarray[Any, Any]) -> None:
        """Add saved counts."""
        self._counter.add(pieces.data, pieces.offsets, counts)

    def add_totals(self, documents: int, size: int, refused: dict[str, int]) -> None:
        """Add the totals of earlier counts."""
        self._documents += documents
        self._bytes += size
        self._refused.update(refused)

    def totals(self) -> tuple[int, int, int, int]:
        """Return (documents, bytes, pieces, bytes of memory held) so far."""
        documents, size, pieces, memory = self._counter.totals()
        return max(0, documents - self._parts), size, pieces, memory

    def finish(self) -> Counted:
        """Return the sums."""
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
            [text for text in self._sample.texts if text],
            self.inputs,
            dict(self._refused),
        )


def count_all(
    counting: Counting,
    corpus: Corpus,
    threads: int = 1,
    advance: Callable[..., None] | None = None,
) -> None:
    """Count every document of a corpus, calling `advance(bytes=n, documents=n)` along the way.

    Each thread takes the next block and counts it at once, while it is in the CPU cache. Only the thread of
    the caller touches its objects.
    """
    blocks, readers = corpus.read_blocks(parts=counting.takes_parts), 1 if corpus.in_memory else threads
    taking, over, told = threading.Lock(), threading.Event(), (0, 0)

    def step() -> bool:
        try:
            with taking:
                block = None if over.is_set() else next(blocks, None)
                if block is None:
                    return False
                admitted = counting.admit(block)
                del block
            counting.count(admitted)
        except BaseException:
            over.set()
            raise
        return True

    def drain() -> None:
        while step():
            pass

    def report() -> None:
        nonlocal told
        documents, size, *_ = counting.totals()
        if advance is not None and (documents, size) != told:
            advance(bytes=size - told[1], documents=documents - told[0])
        told = documents, size

    with ThreadPoolExecutor(max(1, readers - 1), "tokenmill-count") as pool:
        helpers = [pool.submit(drain) for _ in range(1, readers)]
        try:
            while step():
                report()
        finally:
            over.set()
        for helper in helpers:
            helper.result()
    report()


class KeptTexts:
    """A sample of the texts, spread over the corpus, of about half a megabyte."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._every = 1
        self._seen = 0

    def offer(self, texts: Texts) -> None:
        """Keep the first texts of every n-th block; n doubles whenever the sample is full."""
        self._seen += 1
        if self._seen % self._every:
            return
        room = SAMPLE_BYTES // 8
        for place in range(min(len(texts), 64)):
            self.texts.append(texts.read_start(place, room))
            room -= len(self.texts[-1])
            if room <= 0:
                break
        if sum(map(len, self.texts)) > SAMPLE_BYTES:
            self.texts = self.texts[::2]
            self._every *= 2
