"""Small plain files, many in one call of the core: a quarter of a million of them is a common corpus.

Only good files are read this way. A file that is missing, is changing, is not UTF-8 or is not what was
planned is left to the careful way, file by file, which has the messages and the policies for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.sources.model import Block
from tokenmill.sources.raw import make_identity
from tokenmill.sources.windows import BOM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile

# Larger files are read one by one; this much of every file is read to see what it is.
SMALL = 1 << 16


class Start(NamedTuple):
    """The first bytes of a file, and what it was when they were read."""

    data: bytes
    size: int
    identity: str


class Together(NamedTuple):
    """One block of documents from several files, and the place of each document's file among them."""

    block: Block
    places: NDArray[np.int32]


def read_starts(names: Sequence[str]) -> Iterator[tuple[str, Start | None]]:
    """Up to `SMALL` first bytes of each file; None for one that must be opened with care."""
    data, offsets, about = _core.read_small(names, SMALL)
    for place, name in enumerate(names):
        size, modified = about[3 * place], about[3 * place + 1]
        if size < 0:
            yield name, None
        else:
            start = bytes(data[offsets[place] : offsets[place + 1]])
            yield name, Start(start, size, make_identity(size, modified))


def is_small(file: InputFile, config: SourceConfig) -> bool:
    """Whether a file is one document that can be read with its neighbours."""
    plain = file.format == "txt" and file.txt_mode == "file" and file.compression is None and file.local
    return plain and 0 < file.size <= min(SMALL, config.max_record_bytes)


def read_together(files: Sequence[InputFile]) -> Together:
    """The documents of those files that are what was planned and good text, in order.

    The others have no document here. What is here was the same before and after it was read.
    """
    data, offsets, about = _core.read_small([file.url for file in files], SMALL)
    found = np.asarray(about).reshape(-1, 3)
    good = np.array(
        [
            size >= 0 and make_identity(size, modified) == file.identity
            for file, (size, modified, _) in zip(files, found.tolist(), strict=True)
        ]
    )
    starts = np.asarray(offsets)
    good &= ~_find_marked(data, starts)
    for place, _ in _core.invalid_rows(data, starts):
        good[place] = False
    texts = Texts(data, offsets).filter(good)
    rows = np.zeros(len(texts), np.int64)
    block = Block(texts, rows, bytes_read=texts.nbytes, rows_read=len(texts))
    return Together(block, np.flatnonzero(good).astype(np.int32))


def _find_marked(data: memoryview, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which files begin with a byte order mark, which is not text."""
    raw, long = np.asarray(data), np.diff(starts) >= len(BOM)
    marked = np.zeros(len(long), dtype=bool)
    first = starts[:-1][long]
    marked[long] = np.logical_and.reduce([raw[first + at] == byte for at, byte in enumerate(BOM)])
    return marked
