"""Estimate the cost of preparing a corpus from a bounded, seeded sample spread over its files.

Uncompressed files are read at random offsets. Some compressed files are read whole: all their documents and
bytes are counted, and every k-th block is kept.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tokenmill.base.machine import measure
from tokenmill.datasets.formats.files import Items, ShardShape
from tokenmill.datasets.formats.format import list_formats
from tokenmill.errors import InputError
from tokenmill.pipeline.prepare import prepare
from tokenmill.report.cost import compute_cost, load_shape
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import InputFile, Range, cut_ranges, discover, infer_fields, read_blocks
from tokenmill.tokenizer.tokenizer import Tokenizer

SAMPLE_BYTES = 32 << 20
PART_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20
MOST_COMPRESSED = 256 << 20  # bytes on disk to decode for counting
USUAL_EXPANSION = 4


@dataclass
class Sample:
    """The sampled texts in blocks, and `(size, documents, bytes of text)` of every range that was read.

    `total` is the size of all ranges: bytes on disk, and of Parquet those of the uncompressed columns.
    """

    total: int
    blocks: list[pa.LargeStringArray] = field(default_factory=list)
    ranges: list[tuple[int, int, int]] = field(default_factory=list)

    def sum(self) -> tuple[int, int, int]:
        """Return the sums over the ranges."""
        size, documents, text = (sum(column) for column in zip(*self.ranges, strict=True))
        return size, documents, text

    @property
    def complete(self) -> bool:
        """Return True if every byte was read, so that documents and text are exact."""
        return self.sum()[0] >= self.total


def take_sample(files: Sequence[InputFile], config: SourceConfig, *, size: int, seed: int) -> Sample:
    """Take about `size` bytes of text from all over `files`. The same seed takes the same sample.

    Raise `InputError` if the sample has no document.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    config = replace(config, on_error="skip")
    ranges, total = _choose_ranges(files, size, rng)
    sample = Sample(total)
    for file, part, keep in ranges:
        documents = text = 0
        for number, block in enumerate(read_blocks(file, part, config, block_bytes=BLOCK_BYTES)):
            documents += len(block)
            text += block.texts.nbytes
            if number % keep == 0 and len(block):
                sample.blocks.append(block.texts.to_arrow())
        sample.ranges.append((part.size, documents, text))
    if not sample.blocks:
        raise InputError("the sample has no documents: the inputs are empty, or no record could be read")
    return sample


def _choose_ranges(
    files: Sequence[InputFile], size: int, rng: random.Random
) -> tuple[list[tuple[InputFile, Range, int]], int]:
    """Return the ranges to read with the share of their blocks to keep, and the size of all ranges."""
    plain = [
        (file, part) for file in files if file.compression is None for part in cut_ranges(file, PART_BYTES)
    ]
    packed = [file for file in files if file.compression is not None]
    plain_size = sum(part.size for _, part in plain)
    text_size = plain_size + USUAL_EXPANSION * sum(file.size for file in packed)
    chosen: list[tuple[InputFile, Range, int]] = []
    if plain:
        count = max(1, min(len(plain), round(len(plain) * size / max(text_size, 1))))
        # Systematic: one range of each of `count` equal spans, so that no file is skipped.
        step = len(plain) / count
        picks = [plain[min(len(plain) - 1, int((k + rng.random()) * step))] for k in range(count)]
        chosen += [(file, part, 1) for file, part in picks]
    if packed:
        taken: list[InputFile] = []
        room = MOST_COMPRESSED
        for file in rng.sample(packed, len(packed)):
            if not taken or file.size <= room:
                taken.append(file)
                room -= file.size
        share = size * (1 - plain_size / max(text_size, 1))
        keep = max(1, round(USUAL_EXPANSION * sum(file.size for file in taken) / max(share, 1)))
        chosen += [(file, part, keep) for file in taken for part in cut_ranges(file, PART_BYTES)]
    return chosen, plain_size + sum(file.size for file in packed)


class Scale(NamedTuple):
    """The corpus, scaled up from the sample. `margin` is two standard errors as a share, None if exact."""

    documents: float
    text_bytes: float
    tokens: float
    margin: float | None


def estimate(
    inputs: Sequence[str],
    tokenizer: str | Any,
    *,
    assume_size: int | None = None,
    machines: int = 1,
    model: str | None = None,
    budget_tokens: int | None = None,
    sample_bytes: int = SAMPLE_BYTES,
    seed: int = 0,
    **source: Any,
) -> dict[str, Any]:
    """Return the figures of `tokenmill plan`. `assume_size` overrides the bytes of text in the corpus."""
    tok = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    config = SourceConfig(inputs=tuple(inputs), **source)
    files = discover(config)
    config, notes = infer_fields(config, files)
    started = time.monotonic()
    sample = take_sample(files, config, size=sample_bytes, seed=seed)
    read_seconds = time.monotonic() - started
    counts = [_count(tok, block) for block in sample.blocks]
    ends = tok.special_id("eos") is not None  # a job adds an EOS to each document
    scale = _scale_up(sample, counts, added=int(ends), assume_size=assume_size)
    speed = _measure_speed(tok, sample, sum(size for size, _ in counts))
    result = {
        "inputs": {"files": len(files), "bytes_on_disk": sum(file.size for file in files), "notes": notes},
        "sample": {
            "text_bytes": sum(size for size, _ in counts),
            "blocks": len(counts),
            "complete": sample.complete,
            "read_seconds": round(read_seconds, 3),
        },
        "assumed_size": assume_size,
        "documents": round(scale.documents),
        "text_bytes": round(scale.text_bytes),
        "tokens": round(scale.tokens),
        "bytes_per_token": scale.text_bytes / max(scale.tokens, 1),
        "margin_percent": None if scale.margin is None else 100 * scale.margin,
        "disk_bytes": _estimate_disk(tok, sample, scale),
        "seconds_here": scale.text_bytes / speed,
        "machines": machines,
        "seconds_on_machines": scale.text_bytes / speed / machines,
        "bytes_per_second_here": speed,
        "memory_budget": measure().memory_budget,
    }
    return result | _estimate_training(model, tok, scale, budget_tokens)


def _scale_up(sample: Sample, counts: list[tuple[int, int]], *, added: int, assume_size: int | None) -> Scale:
    """Scale up by the text per byte on disk and the tokens per byte of text in the sample.

    `added` tokens are added to each document. `assume_size` is the size of the corpus in bytes of text.
    """
    size, seen, read = sample.sum()
    factor = assume_size / max(read, 1) if assume_size is not None else sample.total / max(size, 1)
    documents, text = seen * factor, read * factor
    sizes, tokens = (np.array(column, dtype=np.float64) for column in zip(*counts, strict=True))
    ratio = tokens.sum() / max(sizes.sum(), 1)
    total = text * ratio + added * documents
    if assume_size is None and sample.complete and sizes.sum() >= text:
        return Scale(documents, text, total, None)
    errors = [_estimate_error(tokens, sizes)]
    if assume_size is None and not sample.complete:
        ranges = np.array(sample.ranges, dtype=np.float64)
        errors.append(_estimate_error(ranges[:, 2], ranges[:, 0]))
    return Scale(documents, text, total, 2 * math.hypot(*errors))


def _estimate_error(values: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> float:
    """Return the relative standard error of sum(values) / sum(sizes), or 10 % for a single block."""
    count = len(values)
    if count < 2 or not values.sum():
        return 0.1
    ratio = values.sum() / sizes.sum()
    residual = values - ratio * sizes
    return float(np.sqrt((residual**2).sum() / (count * (count - 1))) / values.mean())


def _count(tok: Tokenizer, block: pa.LargeStringArray) -> tuple[int, int]:
    size = int(pc.sum(pc.binary_length(block)).as_py() or 0)
    return size, int(tok.count_batch(block, special="text").sum())


def _measure_speed(tok: Tokenizer, sample: Sample, size: int) -> float:
    """Return the bytes of text per second of a prepare job on this machine, measured on the sample.

    The first run warms up imports, tables and page cache. The second is timed.
    """
    with tempfile.TemporaryDirectory(prefix="tokenmill-plan-") as folder:
        path = Path(folder) / "sample.parquet"
        texts = pa.chunked_array(sample.blocks)
        # Several row groups: a real job has at least as many units as threads.
        pq.write_table(
            pa.table({"text": texts}), path, row_group_size=max(1, len(texts) // 16), compression="none"
        )
        for run in ("first", "second"):
            started = time.monotonic()
            prepare(
                inputs=[str(path)],
                tokenizer=tok,
                output=f"{folder}/{run}",
                unit_bytes=max(1 << 20, path.stat().st_size // 8),
                parity_check=False,
                report=False,
                show_progress=False,
                verbose_level="ERROR",
            )
        return size / max(time.monotonic() - started, 1e-6)


def _estimate_disk(tok: Tokenizer, sample: Sample, scale: Scale) -> dict[str, int]:
    """Return the bytes in each format, computed or, for compressed formats, scaled from a written block."""
    found = {}
    for known in list_formats():
        dtype = known.choose_dtype("auto", tok.vocab_size)
        if known.bytes_per_document is not None:
            tokens = scale.tokens * np.dtype(dtype).itemsize
            found[known.name] = round(tokens + scale.documents * known.bytes_per_document)
            continue
        batch = tok.encode_batch(sample.blocks[0], special="text")
        with tempfile.TemporaryDirectory(prefix="tokenmill-plan-") as folder:
            writer = known.writer(ShardShape(Path(folder), "sample", dtype))
            writer.write(Items(batch.ids, batch.offsets))
            written = sum(entry.bytes for entry in writer.close())
        found[known.name] = round(scale.tokens * written / max(len(batch.ids), 1))
    return found


def _estimate_training(model: str | None, tok: Tokenizer, scale: Scale, budget: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if budget is not None:
        found["epochs"] = budget / max(scale.tokens, 1)
        found["budget_tokens"] = budget
    if model is not None:
        tokens = budget if budget is not None else max(1, round(scale.tokens))
        shape = load_shape(model)
        result = compute_cost(shape, tokens=tokens)
        found["training"] = {
            "tokens": tokens,
            "parameters": result["parameters"],
            "flops": result["training_flops"],
            "vocabulary_matches": shape.vocab_size >= tok.vocab_size,
        }
    return found
