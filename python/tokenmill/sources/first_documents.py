"""The first documents of a job's inputs, for looking before working."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenmill.base.errors import TokenmillError
from tokenmill.sources import ranges, read_blocks
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
    """The beginnings of some documents, and how long those documents really are."""

    texts: list[str] = field(default_factory=list)
    bytes: int = 0

    @property
    def average_bytes(self) -> float | None:
        """The average document size, or None without documents."""
        return self.bytes / len(self.texts) if self.texts else None

    def add(self, block: Block, most: int) -> None:
        """Take up to `most` documents of a block."""
        texts = block.texts.slice(0, most)
        self.bytes += texts.nbytes
        self.texts += [texts.beginning(place, LONGEST) for place in range(len(texts))]


def read_first_documents(files: Sequence[InputFile], source: SourceConfig, most: int = 512) -> FirstDocuments:
    """Up to `most` documents, some from each of up to eight files spread over the list.

    A record that cannot be read is left out here: the job itself meets it again and tells of it.
    """
    chosen = files[:: max(1, len(files) // FILES)][:FILES]
    lenient = source.replaced(on_error="skip")
    share = max(1, most // max(1, len(chosen)))
    found = FirstDocuments()
    for file in chosen:
        try:
            _take(found, file, lenient, share)
        except (TokenmillError, OSError):
            continue
    return found


def _take(found: FirstDocuments, file: InputFile, source: SourceConfig, most: int) -> None:
    if file.format == MEMORY and ranges(file, 1 << 62)[0].kind == "file":
        return  # it can only be walked once, and that is for the job
    wanted, read = len(found.texts) + most, 0
    # All of it is one range, since to cut it would open the file once more; no more is read than is taken.
    whole = Range("file", 0, file.size, file.size)
    for block in read_blocks(file, whole, source, block_bytes=BLOCK_BYTES):
        found.add(block, wanted - len(found.texts))
        read += block.bytes_read
        if len(found.texts) >= wanted or read >= MOST_BYTES:
            return
