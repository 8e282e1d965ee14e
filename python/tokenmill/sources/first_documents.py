"""The first documents of a job's inputs, for looking before working."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tokenmill.errors import TokenmillError
from tokenmill.sources import cut_ranges, read_blocks
from tokenmill.sources.model import MEMORY, Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import Block, InputFile

FILES = 8
BLOCK_BYTES = 1 << 18
# A longer document is looked at only so far, so that a sample is small whatever the corpus holds.
LONGEST = 1 << 16
# Hugging Face's engine, which the sample goes through, does about 2 MB/s.
MOST_BYTES = 1 << 19


@dataclass
class FirstDocuments:
    """The beginnings of some documents, how long those really are, and what was read to get at them."""

    texts: list[str] = field(default_factory=list)
    bytes: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    complete: bool = False
    """Whether that was all there is."""

    @property
    def average_bytes(self) -> float | None:
        """The average document size, or None without documents."""
        return self.bytes / len(self.texts) if self.texts else None

    def count_records(self, total_bytes: int | None) -> int | None:
        """How many records inputs of so many bytes have, by those that were read; None if it is not known."""
        if self.complete or not self.bytes_read or total_bytes is None:
            return self.rows_read if self.complete else None
        return round(total_bytes * self.rows_read / self.bytes_read)

    def add(self, block: Block, most: int) -> None:
        """Take up to `most` documents of a block."""
        self.rows_read += block.rows_read
        self.bytes_read += block.bytes_read
        texts = block.texts.slice(0, most)
        self.bytes += texts.nbytes
        self.texts += [texts.read_start(place, LONGEST) for place in range(len(texts))]


def read_first_documents(files: Sequence[InputFile], source: SourceConfig, most: int = 512) -> FirstDocuments:
    """Up to `most` documents, some from each of up to eight files spread over the list.

    A record that cannot be read is left out here: the job itself meets it again and reports it.
    """
    chosen = files[:: max(1, len(files) // FILES)][:FILES]
    lenient = replace(source, on_error="skip")
    share = max(1, most // max(1, len(chosen)))
    found, ended = FirstDocuments(), 0
    for file in chosen:
        try:
            ended += _take(found, file, lenient, share)
        except (TokenmillError, OSError):
            continue
    found.complete = ended == len(files)
    return found


def _take(found: FirstDocuments, file: InputFile, source: SourceConfig, most: int) -> bool:
    """Add documents of one file; whether it has no more."""
    if file.format == MEMORY and cut_ranges(file, 1 << 62)[0].kind == "file":
        return False  # it can be iterated only once, and the job needs that
    wanted, enough = len(found.texts) + most, found.bytes_read + MOST_BYTES
    # All of it is one range, since to cut it would open the file once more; no more is read than is taken.
    whole = Range("file", 0, file.size, file.size)
    for block in read_blocks(file, whole, source, block_bytes=BLOCK_BYTES):
        found.add(block, wanted - len(found.texts))
        if len(found.texts) >= wanted or found.bytes_read >= enough:
            return False
    return True
