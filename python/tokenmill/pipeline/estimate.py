"""Estimate the cost of preparing a corpus from a bounded, seeded sample spread over its files.

Uncompressed files are read at random offsets. Some compressed files are read whole: all their documents and
bytes are counted, and every k-th block is encoded.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.machine import default_threads
from tokenmill.datasets.formats.format import find_format
from tokenmill.errors import InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import InputFile, Range, Reject, cut_ranges, discover, infer_fields, read_blocks
from tokenmill.tokenizer.tokenizer import Tokenizer

SAMPLE_BYTES = 32 << 20
# The size of a range of an uncompressed file, and of a block.
PART_BYTES = 1 << 20
# The usual bytes of text per byte of a compressed file, and how many of these bytes are read per sampled one.
EXPANSION = 4
COMPRESSED_READ = 8
# The relative error to assume for a single block.
UNKNOWN_ERROR = 0.1


def estimate(
    inputs: Sequence[str],
    tokenizer: Tokenizer,
    *,
    assume_size: int | None = None,
    sample_bytes: int = SAMPLE_BYTES,
    **source: Any,
) -> dict[str, Any]:
    """Return the figures of `tokenmill plan`. `assume_size` overrides the bytes of text in the corpus.

    Raise `InputError` if the sample has no document.
    """
    config = SourceConfig(inputs=tuple(inputs), **source)
    files = discover(config)
    config = replace(infer_fields(config, files)[0], on_error="skip")
    ranges = [(file, part) for file in files for part in cut_ranges(file, PART_BYTES)]
    chosen, every = _choose_ranges(ranges, sample_bytes)
    read: list[tuple[int, int, int]] = []  # size, documents and bytes of text of each range
    bad: tuple[Reject, ...] = ()  # the first invalid records
    encoded: list[tuple[int, int]] = []  # bytes of text and tokens of each encoded block
    started, encoding = time.process_time(), 0.0
    for file, part in chosen:
        documents = text = 0
        for number, block in enumerate(read_blocks(file, part, config, block_bytes=PART_BYTES)):
            documents, text = documents + len(block), text + block.texts.nbytes
            bad = bad or block.rejects
            if number % every or not len(block):
                continue
            before = time.process_time()
            encoded.append((block.texts.nbytes, len(tokenizer.encode_batch(block.texts, special="text").ids)))
            encoding += time.process_time() - before
        read.append((part.size, documents, text))
    if not encoded:
        reason = f"{bad[0].place}: {bad[0].reason}" if bad else "the inputs are empty"
        raise InputError(f"the sample has no documents: {reason}")
    reading = time.process_time() - started - encoding
    by_range, by_block = np.array(read, np.float64), np.array(encoded, np.float64)
    size, documents, text = by_range.sum(0)
    sample, tokens = by_block.sum(0)
    complete = len(chosen) == len(ranges)
    factor = sum(part.size for _, part in ranges) / max(size, 1)
    if assume_size is not None:
        factor = assume_size / max(text, 1)
    errors = [_estimate_error(by_block[:, 1], by_block[:, 0])]
    if assume_size is None and not complete:
        errors.append(_estimate_error(by_range[:, 2], by_range[:, 0]))
    exact = assume_size is None and complete and every == 1
    ends = tokenizer.special_id("eos") is not None  # a job adds an EOS to each document
    total = round(factor * (text * tokens / max(sample, 1) + ends * documents))
    dtype = find_format("tokenmill").choose_dtype("auto", tokenizer.vocab_size)
    # Processor time, since a job keeps all threads busy. A slow disk or store can take longer.
    seconds = factor * (reading + encoding * text / max(sample, 1)) / default_threads()
    return {
        "files": len(files),
        "bytes_on_disk": sum(file.size for file in files),
        "sample_bytes": round(sample),
        "documents": round(factor * documents),
        "text_bytes": round(factor * text),
        "tokens": total,
        "bytes_per_token": factor * text / max(total, 1),
        "margin_percent": None if exact else 200 * math.hypot(*errors),
        "disk_bytes": total * np.dtype(dtype).itemsize + round(factor * documents) * 8,
        "seconds": seconds,
    }


def _choose_ranges(
    ranges: Sequence[tuple[InputFile, Range]], size: int
) -> tuple[list[tuple[InputFile, Range]], int]:
    """Return the ranges to read for about `size` bytes of text, and the k of every k-th block to encode.

    One range of each of equal spans is chosen, so that no part of the corpus is skipped. Compressed files are
    read whole, and only some of their blocks are encoded.
    """
    rng = random.Random(0)  # noqa: S311 - a sample, not a secret
    texts = [part.size * (1 if file.compression is None else EXPANSION) for file, part in ranges]
    costs = [part.size // (1 if file.compression is None else COMPRESSED_READ) for file, part in ranges]
    count = max(1, min(len(ranges), round(len(ranges) * size / max(sum(costs), 1))))
    step = len(ranges) / count
    picks = [min(len(ranges) - 1, int((number + rng.random()) * step)) for number in range(count)]
    return [ranges[pick] for pick in picks], max(1, sum(texts[pick] for pick in picks) // size)


def _estimate_error(values: NDArray[np.float64], sizes: NDArray[np.float64]) -> float:
    """Return the relative standard error of sum(values) / sum(sizes)."""
    count = len(values)
    if count < 2 or not values.sum():
        return UNKNOWN_ERROR
    residual = values - values.sum() / sizes.sum() * sizes
    return float(np.sqrt((residual**2).sum() / (count * (count - 1))) / values.mean())
