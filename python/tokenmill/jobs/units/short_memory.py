"""Encoding that goes on with half the documents at a time when memory runs short, rather than crash."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.jobs.units.job import Encoder

logger = logging.getLogger("tokenmill.jobs.units")


def encode_batch(
    encoder: Encoder, texts: Any, *, special: Any, threads: int | None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Flat ids and offsets of an Arrow array of texts; the same whether it was halved or not."""
    try:
        batch = encoder.encode_batch(texts, special=special, threads=threads)
    except MemoryError:
        if len(texts) <= 1:
            raise
        half = len(texts) // 2
        logger.warning("Memory is short: batch of %d documents halved to %d", len(texts), half)
    else:
        return batch.ids, batch.offsets
    # Outside the handler, so that what the failed try held is let go of first.
    first_ids, first = encode_batch(encoder, texts[:half], special=special, threads=threads)
    second_ids, second = encode_batch(encoder, texts[half:], special=special, threads=threads)
    return np.concatenate([first_ids, second_ids]), np.concatenate([first, second[1:] + first[-1]])
