"""The memory-mapped files of a dataset's shards, as one long sequence of tokens and documents.

Opening compares sizes only and costs a few microseconds per file. Files are mapped on first use.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.machine import open_file_limit
from tokenmill.base.texts import mark
from tokenmill.datasets.documents import LOSS_MASK, find_column, group_documents
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import Manifest
from tokenmill.datasets.ledger.receipt import FileEntry
from tokenmill.datasets.remote import ShardCache
from tokenmill.errors import DatasetError

Int64s = NDArray[np.int64]

# Tokens that `read_documents` returns at once.
AT_ONCE = 1 << 20
_COLD = 64
try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]
else:
    _WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


def number_sparsely(shards: int) -> list[int]:
    """Return a first row or document number per shard, 2^32 apart, for shards of unknown size."""
    return [shard << 32 for shard in range(shards + 1)]


class MappedShards:
    """The shards of one manifest."""

    # True if shards are made when they are first read, so that their sizes may be unknown.
    endless = False

    def __init__(self, root: Path, manifest: Manifest, cache: ShardCache | None = None) -> None:
        self.root = root
        self.cache = cache
        self._manifest = manifest
        self.entries = manifest.shards
        self.dtype = np.dtype(manifest.dtype).newbyteorder("<")
        found = find_format(manifest.format)
        # True if the format consists of bare tokens that can be mapped.
        self.mappable = found.map_offsets is not None and manifest.layout == "documents"
        self.offsets_role, self._format, self._row_length = found.offsets_role, found, manifest.row_length
        self.has_loss_mask = self.mappable and any(
            file.role == LOSS_MASK for entry in self.entries[:1] for file in entry.files
        )
        self.token_starts = [0, *accumulate(entry.tokens for entry in self.entries)]
        self.num_tokens = self.token_starts[-1]
        self.document_starts = [0, *accumulate(entry.documents for entry in self.entries)]
        self._maps: defaultdict[str, dict[int, NDArray[Any]]] = defaultdict(dict)
        self._buffers: dict[int, mmap.mmap] = {}
        self._shuffled = self._expected = False
        # Batches left for which to advise the kernel, reset whenever a read waits for the disk.
        self.cold = _COLD
        # Each Python mmap keeps a file descriptor open, and a training job needs some too.
        self.most_mapped = max(64, open_file_limit() // 8)

    # A copy in another process maps the files again, and has the same manifest even if the dataset has grown.
    def __reduce__(self) -> tuple[Any, ...]:
        return MappedShards, (self.root, self._manifest, self.cache)

    def check_sizes(self) -> None:
        """Raise `DatasetError` for the first file that is missing or not of the size in the manifest."""
        for shard in self.entries:
            for entry in shard.files:
                entry.check_size(self.root)

    def expect(self, lane: int, shards: Sequence[int]) -> None:  # noqa: ARG002
        """Start to fetch the remote shards that a lane reads next, instead of the next in order."""
        self._expected = True
        if self.cache is not None:
            self.cache.prefetch([self.entries[shard] for shard in shards])

    def count_rows(self, name: str, count: Callable[[], int]) -> int:  # noqa: ARG002
        """Return the number of rows of a view of a shard. A stream saves it under a name."""
        return count()

    def path(self, entry: FileEntry) -> Path:
        """Return the path of a file, fetched if the dataset is remote. Raise if its size is wrong.

        The file may have been truncated since `check_sizes`, which would give wrong tokens.
        """
        if self.cache is not None:
            return self.cache.path(entry)
        entry.check_size(self.root)
        return self.root / entry.path

    def file(self, index: int, role: str = "tokens") -> NDArray[Any]:
        """Return the tokens, offsets or loss mask of a shard, mapped on first use."""
        maps = self._maps[role]
        found = maps.get(index)
        if found is None:
            if self.cache is not None and role == "tokens" and not self._expected:
                self.cache.prefetch(self.entries[index + 1 :][: self.cache.ahead], {role})
            try:
                found = self._map(index, role)
            except FileNotFoundError:
                if self.cache is None:
                    raise
                # Another process removed the file from the cache after it was fetched.
                found = self._map(index, role)
            maps[index] = found
            if len(maps) > self.most_mapped:
                oldest = list(maps)[0]  # noqa: RUF015 - another thread may change an iterator's dictionary
                maps.pop(oldest, None)
                if role == "tokens":
                    self._buffers.pop(oldest, None)
        return found

    def _map(self, index: int, role: str) -> NDArray[Any]:
        shard, head = self.entries[index], self._format.head_bytes
        if role == "offsets" and self._row_length is not None:
            return np.arange(shard.rows + 1) * self._row_length
        entry = shard.file(self.offsets_role if role == "offsets" else role)
        path = self.path(entry)
        if role == "offsets":
            assert self._format.map_offsets is not None, "only mappable formats are mapped"
            offsets = np.asarray(self._format.map_offsets(path, self.dtype))
            if len(offsets) != shard.documents + 1 or offsets[0] != 0 or offsets[-1] != shard.tokens:
                raise DatasetError(
                    f"{path} has {len(offsets) - 1} documents from {offsets[0]} to {offsets[-1]}, the "
                    f"manifest promises {shard.documents} of {shard.tokens} tokens: it is damaged"
                )
            return offsets
        dtype = self.dtype if role == "tokens" else np.dtype(find_column(role).stored)
        if entry.bytes != head + shard.tokens * dtype.itemsize:
            raise DatasetError(f"{path} has {entry.bytes} bytes for {shard.tokens} tokens: it is damaged")
        if not shard.tokens:
            return np.empty(0, dtype)
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if role == "tokens":
            self._buffers[index] = buffer
            if self._shuffled:
                buffer.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(buffer, dtype, offset=head)

    def locate(self, token: int) -> tuple[int, int]:
        """Return the shard that holds this token of the dataset, and the token's offset in it."""
        # If several shards start at the same token, all but the last are empty. Bisect finds the last.
        index = bisect_right(self.token_starts, token) - 1
        return index, token - self.token_starts[index]

    def locate_document(self, number: int) -> tuple[int, int]:
        """Return the shard that holds this document of the dataset, and its number in the shard."""
        index = bisect_right(self.document_starts, number) - 1
        return index, number - self.document_starts[index]

    def count_longer(self, length: int) -> tuple[int, int]:
        """Return the number of documents longer than `length` and their total excess tokens."""
        documents = tokens = 0
        for index in range(len(self.entries)):
            over = np.diff(self.file(index, "offsets").astype(np.int64)) - length
            documents += int((over > 0).sum())
            tokens += int(over[over > 0].sum())
        return documents, tokens

    def read(self, start: int, length: int, role: str = "tokens") -> NDArray[Any]:
        """Return tokens `start..start + length`, or their loss mask. A range across shards is copied."""
        index, local = self.locate(start)
        part = self.file(index, role)[local : local + length]
        if len(part) == length:
            return part
        parts = [part]
        while length := length - len(parts[-1]):
            index += 1
            parts.append(self.file(index, role)[:length])
        return np.concatenate(parts)

    def advise_willneed(self, index: int, starts: Int64s, lengths: Int64s) -> None:
        """Ask the kernel for ranges of tokens of a shard at once, without read-ahead.

        On a page fault the kernel reads up to megabytes around the page, for each shuffled row. With 8 MB of
        read-ahead and a cold cache: 24 rows/s by page faults, 33,000 with this advice.
        """
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        if not self._shuffled:
            self._shuffled = True
            for buffer in self._buffers.values():
                buffer.madvise(mmap.MADV_RANDOM)
        tokens, width = self.file(index), self.dtype.itemsize
        # A reader in another thread may have unmapped the shard.
        if (found := self._buffers.get(index)) is None:
            return
        for begin, size in zip((starts * width).tolist(), (lengths * width).tolist(), strict=True):
            page = begin - begin % mmap.PAGESIZE
            found.madvise(mmap.MADV_WILLNEED, page, min(begin + size, tokens.nbytes) - page)

    @contextmanager
    def watch_faults(self) -> Iterator[None]:
        """Check for major page faults. Only cold reads are worth the cost of `advise_willneed`."""
        if resource is None:
            yield
            return
        before = resource.getrusage(_WHO).ru_majflt
        yield
        waited = resource.getrusage(_WHO).ru_majflt > before
        self.cold = _COLD if waited else max(0, self.cold - 1)

    def read_documents(
        self, index: int, at_once: int = AT_ONCE, *, marked: bool = False
    ) -> Iterator[tuple[int, NDArray[Any], Int64s]]:
        """Yield the documents or rows of a shard in groups of about `at_once` tokens: (first, ids, offsets).

        With `marked`, ids carry the loss mask (`base.texts`). Raise `DatasetError` for a format that only
        other libraries read.
        """
        if not self._format.readable:
            raise DatasetError(f"the format {self._format.name} is read by {self._format.read_by} only")
        if self._format.read_table is not None:
            first = 0
            for items in self._format.read_table(self.path(self.entries[index].file("table"))):
                ids = mark(items.ids, items.columns[LOSS_MASK].astype(bool)) if marked else items.ids
                yield first, ids, items.offsets
                first += len(items.offsets) - 1
            return
        stored = self.file(index)
        # The core expects native byte order. On a little-endian machine this makes no copy.
        native = stored.dtype.newbyteorder("=")
        tokens = stored.view(native) if sys.byteorder == "little" else stored.astype(native)
        if marked:
            tokens = mark(tokens, self.file(index, LOSS_MASK).astype(bool))
        offsets = self.file(index, "offsets").astype(np.int64)
        for first, last in group_documents(offsets, at_once):
            part = offsets[first : last + 1]
            yield first, tokens[part[0] : part[-1]], part - part[0]
