"""A bounded, seeded sample of a corpus, spread over its files, with what is needed to scale it up.

A plain file is entered at random places. A compressed one cannot be, so some compressed files are read whole:
all their documents and bytes are counted, and every k-th block is kept.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tokenmill.errors import InputError
from tokenmill.sources import cut_ranges, read_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import InputFile, Range

SAMPLE_BYTES = 32 << 20
PART_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20
MOST_COMPRESSED = 256 << 20  # bytes on disk that are decoded to count what is in them
USUAL_EXPANSION = 4


@dataclass
class Seen:
    """What was counted in one range: bytes on disk, documents, bytes of text."""

    disk: int
    documents: int = 0
    text: int = 0


@dataclass
class Sample:
    """The kept texts in blocks, and the counts of every range that was read."""

    total_disk: int
    blocks: list[pa.LargeStringArray] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every byte was read, so that documents and text are exact."""
        return sum(part.disk for part in self.seen) >= self.total_disk


def take_sample(
    files: Sequence[InputFile], config: SourceConfig, *, size: int = SAMPLE_BYTES, seed: int = 0
) -> Sample:
    """About `size` bytes of text from all over `files`; the same seed takes the same sample.

    Raises `InputError` if it holds no document.
    """
    rng = random.Random(seed)  # noqa: S311 - a sample, not a secret
    config = replace(config, on_error="skip")
    sample = Sample(sum(file.size for file in files))
    for file, part, keep in _choose_ranges(files, size, rng):
        seen = Seen(part.size)
        for number, block in enumerate(read_blocks(file, part, config, block_bytes=BLOCK_BYTES)):
            seen.documents += len(block)
            seen.text += block.texts.nbytes
            if number % keep == 0 and len(block):
                sample.blocks.append(block.texts.to_arrow())
        sample.seen.append(seen)
    if not sample.blocks:
        raise InputError("the sample holds no document: the inputs are empty, or no record could be read")
    return sample


def _choose_ranges(
    files: Sequence[InputFile], size: int, rng: random.Random
) -> list[tuple[InputFile, Range, int]]:
    """Which ranges to read, and which share of their blocks to keep."""
    plain = [
        (file, part) for file in files if file.compression is None for part in cut_ranges(file, PART_BYTES)
    ]
    packed = [file for file in files if file.compression is not None]
    plain_size = sum(part.size for _, part in plain)
    text_size = plain_size + USUAL_EXPANSION * sum(file.size for file in packed)
    chosen: list[tuple[InputFile, Range, int]] = []
    if plain:
        count = max(1, min(len(plain), round(len(plain) * size / max(text_size, 1))))
        # Systematic: one range of each of `count` equal stretches, so that no file is skipped.
        step = len(plain) / count
        picks = [plain[min(len(plain) - 1, int((k + rng.random()) * step))] for k in range(count)]
        chosen += [(file, part, 1) for file, part in picks]
    if packed:
        order = rng.sample(packed, len(packed))
        taken: list[InputFile] = []
        room = MOST_COMPRESSED
        for file in order:
            if not taken or file.size <= room:
                taken.append(file)
                room -= file.size
        share = size * (1 - plain_size / max(text_size, 1))
        keep = max(1, round(USUAL_EXPANSION * sum(file.size for file in taken) / max(share, 1)))
        chosen += [(file, part, keep) for file in taken for part in cut_ranges(file, PART_BYTES)]
    return chosen
