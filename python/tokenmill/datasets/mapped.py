"""The memory-mapped files of a dataset's shards, as one long sequence of tokens and documents.

Opening compares sizes only and costs a few microseconds per file. Files are mapped on first use.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.machine import open_file_limit
from tokenmill.base.texts import mark
from tokenmill.datasets.documents import LOSS_MASK, find_column
from tokenmill.datasets.formats.files import map_offsets, map_segments
from tokenmill.datasets.formats.format import find_format
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry
    from tokenmill.datasets.remote import ShardCache

    Int64s = NDArray[np.int64]

# Tokens that `read_documents` returns at once.
AT_ONCE = 1 << 20


class MappedShards:
    """The shards of one manifest."""

    def __init__(self, root: Path, manifest: Manifest, cache: ShardCache | None = None) -> None:
        self.root = root
        self.cache = cache
        self.entries = manifest.shards
        self.dtype = np.dtype(manifest.dtype).newbyteorder("<")
        # True if the format consists of bare tokens that can be mapped.
        self.mappable = find_format(manifest.format).mapped
        self.has_loss_mask = self.mappable and LOSS_MASK in manifest.packing.columns
        self.token_starts = [0, *accumulate(entry.tokens for entry in self.entries)]
        self.num_tokens = self.token_starts[-1]
        self.document_starts = [0, *accumulate(entry.documents for entry in self.entries)]
        self._whole_documents = manifest.layout == "documents"
        self._maps: defaultdict[str, dict[int, NDArray[Any]]] = defaultdict(dict)
        self._buffers: dict[int, mmap.mmap] = {}
        self._shuffled = False
        # A Python mmap keeps a file descriptor; a training job needs some for itself.
        self._most_mapped = max(64, open_file_limit() // 2)

    def check_sizes(self) -> None:
        """Raise `DatasetError` for the first file that is missing or not of the size in the manifest."""
        for shard in self.entries:
            for entry in shard.files:
                entry.check_size(self.root)

    def path(self, entry: FileEntry) -> Path:
        """Return the path of a file, fetched first if the dataset is remote; raise if its size is wrong.

        A shard is mapped long after `check_sizes`. A file truncated since would put tokens of other rows into
        a row.
        """
        if self.cache is not None:
            return self.cache.path(entry)
        entry.check_size(self.root)
        return self.root / entry.path

    def file(self, index: int, role: str = "tokens") -> NDArray[Any]:
        """Return the tokens, offsets, segments or loss mask of a shard, mapped on first use."""
        maps = self._maps[role]
        found = maps.get(index)
        if found is None:
            if self.cache is not None and role == "tokens":
                self.cache.prefetch(self.entries[index + 1 :], role)
            try:
                found = self._map(index, role)
            except FileNotFoundError:
                if self.cache is None:
                    raise
                # Another process removed the file from the cache since it was fetched.
                found = self._map(index, role)
            maps[index] = found
            if len(maps) > self._most_mapped:
                oldest = next(iter(maps))
                maps.pop(oldest, None)
                if role == "tokens":
                    self._buffers.pop(oldest, None)
        return found

    def _map(self, index: int, role: str) -> NDArray[Any]:
        shard = self.entries[index]
        entry = shard.file(role)
        path = self.path(entry)
        if role == "segments":
            return np.asarray(map_segments(path))
        if role == "offsets":
            offsets = np.asarray(map_offsets(path))
            if len(offsets) != shard.documents + 1:
                raise DatasetError(
                    f"{path} has {len(offsets) - 1} documents, the manifest promises {shard.documents}: "
                    "it is damaged"
                )
            return offsets
        dtype = self.dtype if role == "tokens" else np.dtype(find_column(role).stored)
        if entry.bytes != shard.tokens * dtype.itemsize:
            raise DatasetError(f"{path} has {entry.bytes} bytes for {shard.tokens} tokens: it is damaged")
        if not entry.bytes:
            return np.empty(0, dtype)
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if role == "tokens":
            self._buffers[index] = buffer
            if self._shuffled:
                buffer.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(buffer, dtype)

    def locate(self, token: int) -> tuple[int, int]:
        """Return the shard that holds this token of the dataset, and the token's offset in it."""
        # Of shards that start at the same token all but the last are empty, and bisect finds the last.
        index = bisect_right(self.token_starts, token) - 1
        return index, token - self.token_starts[index]

    def locate_document(self, number: int) -> tuple[int, int]:
        """Return the shard that holds this document of the dataset, and its number in the shard."""
        index = bisect_right(self.document_starts, number) - 1
        return index, number - self.document_starts[index]

    def read(self, start: int, length: int, role: str = "tokens") -> NDArray[Any]:
        """Return tokens `start..start + length` of the dataset, or their loss mask; a copy across shards."""
        index, local = self.locate(start)
        part = self.file(index, role)[local : local + length]
        if len(part) == length:
            return part
        parts = [part]
        while length := length - len(parts[-1]):
            index += 1
            parts.append(self.file(index, role)[:length])
        return np.concatenate(parts)

    def advise_willneed(self, starts: Iterable[int], length: int) -> None:
        """Ask the kernel for these ranges of tokens at once, without read-ahead.

        On a page fault the kernel reads up to megabytes around the page, for each shuffled row. With 8 MB of
        read-ahead and a cold cache: 24 rows/s by page faults, 33,000 with this advice.
        """
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        if not self._shuffled:
            self._shuffled = True
            for buffer in self._buffers.values():
                buffer.madvise(mmap.MADV_RANDOM)
        for start in starts:
            index, local = self.locate(start)
            tokens = self.file(index)
            begin = local * self.dtype.itemsize
            page = begin - begin % mmap.PAGESIZE
            end = min(begin + length * self.dtype.itemsize, tokens.nbytes)
            # A reader in another thread may have unmapped the shard.
            if (found := self._buffers.get(index)) is not None:
                found.madvise(mmap.MADV_WILLNEED, page, end - page)

    def _list_segments(self, index: int, first: int, last: int) -> Int64s:
        """Return (document, start, position, length) of documents `first..last` of a shard of documents."""
        offsets = self.file(index, "offsets")[first : last + 1]
        found = np.zeros((last - first, 4), np.int64)
        found[:, 0] = np.arange(first, last)
        found[:, 2] = offsets[:-1]
        found[:, 3] = np.diff(offsets)
        return found

    def find_segments(self, index: int, document: int) -> Int64s:
        """Return the segments of one document of a shard, in the order of its tokens."""
        if self._whole_documents:
            return self._list_segments(index, document, document + 1)
        segments = self.file(index, "segments")
        chosen: Int64s = segments[segments[:, 0] == np.uint64(document)].astype(np.int64)
        return chosen[np.argsort(chosen[:, 1], kind="stable")]

    def find_spans(self, start: int, length: int) -> Int64s:
        """Return the documents in tokens `start..start + length` of the dataset.

        A span is (document, offset from `start`, length, offset in the document).
        """
        index, local = self.locate(start)
        found, done = [np.empty((0, 4), np.int64)], 0
        while done < length:
            take = min(length - done, self.entries[index].tokens - local)
            if take:
                document, begin, position, size = self._cut(index, local, local + take).T
                first = np.maximum(position, local)
                last = np.minimum(position + size, local + take)
                document = document + self.document_starts[index]
                spans = [document, first - local + done, last - first, begin + first - position]
                found.append(np.stack(spans, axis=1)[last > first])
            done, index, local = done + take, index + 1, 0
        return np.concatenate(found)

    def _cut(self, index: int, start: int, end: int) -> Int64s:
        """Return the segments that meet tokens `start..end` of a shard."""
        if self._whole_documents:
            # The searched value must be u64 as well: otherwise NumPy converts the whole mapped index.
            offsets = self.file(index, "offsets")
            first = int(np.searchsorted(offsets, np.uint64(start), side="right")) - 1
            return self._list_segments(index, first, int(np.searchsorted(offsets, np.uint64(end))))
        segments = self.file(index, "segments")
        positions: Sequence[int] = segments[:, 2]  # type: ignore[assignment]
        first, last = max(0, bisect_right(positions, start) - 1), bisect_left(positions, end)
        return segments[first:last].astype(np.int64)

    def find_documents(self, documents: Int64s) -> tuple[Int64s, Int64s]:
        """Return the start and end of every non-empty range of tokens that these documents occupy."""
        found = [np.empty((0, 2), np.int64)]
        for document in documents[documents < self.document_starts[-1]].tolist():
            index, local = self.locate_document(document)
            ranges = self.find_segments(index, local)[:, 2:]
            ranges[:, 0] += self.token_starts[index]
            found.append(ranges[ranges[:, 1] > 0])
        begins, sizes = np.concatenate(found).T
        return begins, begins + sizes

    def read_documents(
        self, index: int, at_once: int = AT_ONCE, *, marked: bool = False
    ) -> Iterator[tuple[int, NDArray[Any], Int64s]]:
        """Yield the documents of a shard in groups of about `at_once` tokens, as (first, ids, offsets).

        A document that was cut into rows is joined again, without the tokens that an overlap repeats. With
        `marked`, ids carry the loss mask (`base.texts`).
        """
        shard, stored = self.entries[index], self.file(index)
        # The core takes the machine's byte order; on a little-endian machine this makes no copy.
        native = stored.dtype.newbyteorder("=")
        tokens = stored.view(native) if sys.byteorder == "little" else stored.astype(native)
        if marked:
            tokens = mark(tokens, self.file(index, LOSS_MASK).astype(bool))
        if self._whole_documents:
            offsets = self.file(index, "offsets").astype(np.int64)
            for first, last in _group(offsets, at_once):
                part = offsets[first : last + 1]
                yield first, tokens[part[0] : part[-1]], part - part[0]
            return
        segments = self.file(index, "segments").astype(np.int64)
        document, start, position, length = segments[np.lexsort((segments[:, 1], segments[:, 0]))].T
        # The tokens at the start of each segment that the one before it has too.
        again = np.zeros_like(length)
        same = document[1:] == document[:-1]
        shared = (start + length)[:-1] - start[1:]
        again[1:][same] = np.clip(shared, 0, length[1:])[same]
        begin, length = position + again, length - again
        sizes = np.bincount(document, weights=length, minlength=shard.documents).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        for first, last in _group(offsets, at_once):
            low, high = np.searchsorted(document, [first, last])
            mine = np.ascontiguousarray(length[low:high])
            targets = np.ascontiguousarray(np.cumsum(mine) - mine)
            ids = np.empty(int(offsets[last] - offsets[first]), dtype=tokens.dtype)
            _core.copy_segments(tokens, np.ascontiguousarray(begin[low:high]), targets, mine, ids)
            yield first, ids, offsets[first : last + 1] - offsets[first]


def _group(offsets: Int64s, at_once: int) -> Iterator[tuple[int, int]]:
    """Yield ranges `(first, last + 1)` of documents that have about `at_once` tokens together."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + at_once, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last
