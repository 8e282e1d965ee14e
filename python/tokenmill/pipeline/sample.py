"""The first documents of a job's inputs, for looking before working."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.errors import TokenmillError
from tokenmill.sources import ranges, read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenmill.config.schema import SourceConfig
    from tokenmill.sources import InputFile

BLOCK_BYTES = 1 << 18
FILES = 8


def sample_documents(files: Sequence[InputFile], source: SourceConfig, most: int = 512) -> list[str]:
    """Up to `most` documents, some from each of up to eight files spread over the list.

    A record that cannot be read is left out here: the job itself meets it again and tells of it.
    """
    step = max(1, len(files) // FILES)
    chosen = files[::step][:FILES]
    lenient = source.model_copy(update={"on_error": "skip"})
    share = max(1, most // max(1, len(chosen)))
    found: list[str] = []
    for file in chosen:
        try:
            found += _first(file, lenient, share)
        except (TokenmillError, OSError):
            continue
    return found


def _first(file: InputFile, source: SourceConfig, most: int) -> list[str]:
    documents: list[str] = []
    for text in _texts(file, source):
        documents.append(text)
        if len(documents) >= most:
            break
    return documents


def _texts(file: InputFile, source: SourceConfig) -> Iterator[str]:
    for part in ranges(file, BLOCK_BYTES):
        for block in read_blocks(file, part, source, block_bytes=BLOCK_BYTES):
            yield from (text.as_py() for text in block.texts)
