"""How many documents go through at once: by their size, the memory budget, and what ran short before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

logger = logging.getLogger("tokenmill.base.hardware")
R = TypeVar("R")

# A document in flight is held as text, as ids (up to 4 bytes for each byte of text) and as written bytes.
BYTES_HELD_PER_TEXT_BYTE = 8
FEWEST, MOST = 16, 20_000
USUAL_DOCUMENT = 4096


def compute_batch_size(average_document_bytes: float | None, budget: int, workers: int = 1) -> int:
    """Documents per batch: `compute_batch_size(4096, 512 << 20, 2)` -> `8192`."""
    size = max(1.0, average_document_bytes or USUAL_DOCUMENT)
    fit = budget / max(1, workers) / (size * BYTES_HELD_PER_TEXT_BYTE)
    return int(max(FEWEST, min(MOST, fit)))


def compute_held_bytes(average_document_bytes: float | None, documents: int, workers: int = 1) -> int:
    """What batches of so many documents hold in memory, all workers together."""
    return int((average_document_bytes or USUAL_DOCUMENT) * documents * BYTES_HELD_PER_TEXT_BYTE * workers)


def run_in_batches(
    documents: Sequence[str], work: Callable[[Sequence[str]], R], size: int
) -> Iterator[tuple[int, R]]:
    """Do `work` on slices of `documents`; on MemoryError halve the slice and try again, down to one.

    Yields `(start, result)` in order, so that a caller never sees the retry.
    """
    start = 0
    while start < len(documents):
        try:
            result = work(documents[start : start + size])
        except MemoryError:
            if size <= 1:
                raise
            size = max(1, min(size, len(documents) - start) // 2)
            logger.warning("Memory is running low: batch size halved to %d", size)
            continue
        yield start, result
        start += size
