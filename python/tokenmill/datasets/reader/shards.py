"""The mapped files of a dataset's shards: nothing is touched before it is read, and nothing is copied.

Opening looks at sizes only, so it costs a few microseconds per file whatever is in them.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tokenmill.base.platform import open_file_limit
from tokenmill.datasets.columns import LOSS_MASK, find_column
from tokenmill.datasets.formats.files import map_offsets, map_segments
from tokenmill.datasets.formats.format import find_format
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry
    from tokenmill.datasets.store.cache import ShardCache

    Tokens = np.ndarray[Any, np.dtype[Any]]


class Shards:
    """The shards of one manifest, side by side as one long run of tokens."""

    def __init__(self, root: Path, manifest: Manifest, cache: ShardCache | None = None) -> None:
        self.root = root
        self.cache = cache
        self.manifest = manifest
        self.entries = manifest.shards
        self.token_starts = [0, *accumulate(entry.tokens for entry in self.entries)]
        self.num_tokens = self.token_starts[-1]
        self.document_starts = [0, *accumulate(entry.documents for entry in self.entries)]
        self._tokens: list[Tokens | None] = [None] * len(self.entries)
        self._buffers: dict[int, mmap.mmap] = {}
        self._shuffled = False
        self._indexes: dict[str, NDArray[np.uint64]] = {}
        self._masks: dict[int, NDArray[Any]] = {}
        # A Python mmap keeps a file descriptor; a training job needs some for itself.
        self._most_mapped = max(64, open_file_limit() // 2)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the token ids on disk."""
        return np.dtype(self.manifest.dtype).newbyteorder("<")

    @cached_property
    def mapped(self) -> bool:
        """Whether these are files that can be mapped, of bare tokens."""
        return find_format(self.manifest.format).mapped

    def check_sizes(self) -> None:
        """Raise for the first file that is missing or has not the size that the manifest promises."""
        for shard in self.entries:
            if self.mapped and shard.tokens * self.dtype.itemsize != shard.file("tokens").bytes:
                raise DatasetError(
                    f"shard {shard.name} of {self.root} has {shard.tokens} tokens of {self.dtype.itemsize} "
                    f"bytes in a file of {shard.file('tokens').bytes}: the manifest is damaged. Copy it again"
                )
            for entry in shard.files:
                entry.check_size(self.root)

    def tokens(self, index: int) -> Tokens:
        """All token ids of one shard, mapped on first use."""
        found = self._tokens[index]
        if found is None:
            found = self._map(index)
        return found

    def _map(self, index: int) -> Tokens:
        entry = self.entries[index].file("tokens")
        if not entry.bytes:
            return np.empty(0, dtype=self.dtype)
        if self.cache is not None:
            self.cache.prefetch(self.entries[index + 1 :], "tokens")
        with self._open(entry) as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        tokens = np.frombuffer(buffer, dtype=self.dtype)
        if self._shuffled:
            buffer.madvise(mmap.MADV_RANDOM)
        if len(self._buffers) >= self._most_mapped:
            oldest = next(iter(self._buffers))
            self._tokens[oldest] = None
            del self._buffers[oldest]
        self._tokens[index], self._buffers[index] = tokens, buffer
        return tokens

    def _open(self, entry: FileEntry) -> BinaryIO:
        try:
            return self.path(entry).open("rb")
        except FileNotFoundError:
            if self.cache is None:
                raise
            # Another process made room for its own shards in between.
            return self.path(entry).open("rb")

    def path(self, entry: FileEntry) -> Path:
        """Where a file is, fetched first if the dataset is remote; raises unless it has its size still.

        A shard is mapped when it is first read, long after `check_sizes`. One that somebody has cut or
        replaced by then would lend tokens of its neighbour to the rows.
        """
        if self.cache is not None:
            return self.cache.path(entry)
        entry.check_size(self.root)
        return self.root / entry.path

    def expect(self, starts: Iterable[int], length: int) -> None:
        """Ask the system for these stretches at once, and for nothing around them.

        On a page fault the kernel reads what surrounds the page, up to megabytes, and shuffled rows would
        each pay for that. Measured where it reads 8 MB ahead, on 1 GB of holes not in the cache: 24 rows/s by
        plain faults, 33,000 so; no difference once everything is in the cache.
        """
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        if not self._shuffled:
            self._shuffled = True
            for buffer in self._buffers.values():
                buffer.madvise(mmap.MADV_RANDOM)
        for start in starts:
            index, local = self.locate(start)
            self.tokens(index)
            begin = local * self.dtype.itemsize
            page = begin - begin % mmap.PAGESIZE
            end = min(begin + length * self.dtype.itemsize, self.entries[index].tokens * self.dtype.itemsize)
            # A reader in another thread may have made room in between.
            if (found := self._buffers.get(index)) is not None:
                found.madvise(mmap.MADV_WILLNEED, page, end - page)

    def locate(self, token: int) -> tuple[int, int]:
        """The shard that holds this token of the dataset, and the token's place within it."""
        # Of shards that start at the same token all but the last are empty, and that is the one found.
        index = bisect_right(self.token_starts, token) - 1
        return index, token - self.token_starts[index]

    def locate_document(self, number: int) -> tuple[int, int]:
        """The shard that holds this document of the dataset, and the document's number within it."""
        index = bisect_right(self.document_starts, number) - 1
        return index, number - self.document_starts[index]

    def read(self, start: int, length: int) -> Tokens:
        """Tokens `start..start + length` of the dataset; a view unless it crosses into another shard."""
        index, local = self.locate(start)
        part = self.tokens(index)[local : local + length]
        if len(part) == length:
            return part
        parts = [part]
        missing = length - len(part)
        while missing:
            index += 1
            parts.append(self.tokens(index)[:missing])
            missing -= len(parts[-1])
        return np.concatenate(parts)

    @cached_property
    def masked(self) -> bool:
        """Whether the dataset says which of its tokens are learned."""
        return self.mapped and LOSS_MASK in self.manifest.packing.columns

    def read_learned(self, start: int, length: int) -> NDArray[np.bool_]:
        """Which of the tokens `start..start + length` are learned, as they were written."""
        index, local = self.locate(start)
        parts, missing = [], length
        while missing:
            part = self._map_mask(index)[local : local + missing]
            parts.append(np.asarray(part, bool))
            missing, index, local = missing - len(part), index + 1, 0
        return np.concatenate([np.empty(0, bool), *parts])

    def _map_mask(self, index: int) -> NDArray[Any]:
        found = self._masks.get(index)
        if found is None:
            entry = self.entries[index].file(LOSS_MASK)
            if entry.bytes != self.entries[index].tokens:
                tokens = self.entries[index].tokens
                raise DatasetError(f"{entry.path} has {entry.bytes} bytes for {tokens} tokens: it is damaged")
            kind = find_column(LOSS_MASK).stored
            found = np.memmap(self.path(entry), kind, "r") if entry.bytes else np.empty(0, kind)
            if len(self._masks) >= self._most_mapped:
                del self._masks[next(iter(self._masks))]
            self._masks[index] = found
        return found

    def offsets(self, entry: ShardEntry) -> NDArray[np.uint64]:
        """Where each document of a shard begins in its tokens, and the end of the last."""
        return self._map_index(entry, "offsets")

    def segments(self, entry: ShardEntry) -> NDArray[np.uint64]:
        """Which stretch of which document lies where: rows of (document, start, position, length)."""
        return self._map_index(entry, "segments")

    def _map_index(self, entry: ShardEntry, role: str) -> NDArray[np.uint64]:
        found = self._indexes.get(entry.name)
        if found is None:
            path = self.path(entry.file(role))
            found = np.asarray(map_offsets(path) if role == "offsets" else map_segments(path))
            if role == "offsets" and len(found) != entry.documents + 1:
                raise DatasetError(
                    f"{path} has {len(found) - 1} documents, the manifest promises {entry.documents}: "
                    "it is damaged"
                )
            if len(self._indexes) >= self._most_mapped:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[entry.name] = found
        return found
