"""Locate the rows of a view in the shards of a dataset, by arithmetic or by an index of each shard.

An index lists the parts of documents that fill each row. It depends only on the view and the offsets of
the documents. It is computed on first use and saved in `views/` next to the manifest, or in the cache
directory if the dataset is read-only. A corrupt index is recomputed.
"""

from __future__ import annotations

import logging
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.durable import cache_root, digest, publish_bytes
from tokenmill.datasets.documents import LOSS_MASK, Int64s, find_column
from tokenmill.datasets.mapped import MappedShards, number_sparsely
from tokenmill.datasets.views import Layer, View, count_within, find_places

logger = logging.getLogger("tokenmill.datasets")
VIEWS = "views"
_MAGIC = b"TMVW2\0\0\0"
# Magic, rows, parts, tokens in rows, dropped tokens; then the hash of these and of the arrays.
_HEAD = struct.Struct("<8sQQQQ")
_HASH_BYTES = 16
_BODY = _HEAD.size + _HASH_BYTES
_PART = np.dtype([("start", "<u8"), ("length", "<u4")])
_AT_ONCE = 1 << 16
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Pieces:
    """Ranges of tokens of one shard and their targets: offset `place` in the `nth` requested row."""

    shard: int
    nth: Int64s
    place: Int64s
    start: Int64s
    length: Int64s


class PositionLayout:
    """Row *i* is the tokens from `i * (context_length - overlap)` on, across shards."""

    def __init__(self, shards: MappedShards, view: View) -> None:
        self.shards = shards
        self._view = view
        self.stride = view.context_length - view.overlap
        total = shards.num_tokens
        self.whole = max(0, (total - view.overlap) // self.stride)
        """Rows without padding."""
        left = total - (self.whole * self.stride + view.overlap if self.whole else 0)
        self.rows = self.whole + (view.tail == "pad" and left > 0)
        self.dropped = 0 if view.tail == "pad" else left
        self.held = total - self.dropped + view.overlap * max(0, self.rows - 1)
        """Tokens in all rows, repeated ones included."""

    @cached_property
    def row_starts(self) -> list[int]:
        """The number of the first row that begins in each shard, followed by the total."""
        starts = (-(-start // self.stride) for start in self.shards.token_starts[:-1])
        return [*(min(start, self.rows) for start in starts), self.rows]

    def count(self, shard: int) -> int:
        """Return the number of rows that begin in a shard."""
        return self.row_starts[shard + 1] - self.row_starts[shard]

    def locate(self, rows: Int64s) -> Iterator[Pieces]:
        """Yield the tokens of some rows, shard by shard."""
        starts = np.asarray(self.shards.token_starts)
        begin = rows * self.stride
        end = np.minimum(begin + self._view.context_length, starts[-1])
        nth, place = np.arange(len(rows)), np.zeros_like(rows)
        while len(nth):
            shards = np.searchsorted(starts, begin, side="right") - 1
            length = np.minimum(end, starts[shards + 1]) - begin
            for shard in np.unique(shards).tolist():
                mine = shards == shard
                yield Pieces(shard, nth[mine], place[mine], begin[mine] - starts[shard], length[mine])
            more = begin + length < end
            nth, begin, end, place = nth[more], (begin + length)[more], end[more], (place + length)[more]

    def fill(self, rows: list[int], dtype: np.dtype[Any], pad: int, role: str = "tokens") -> NDArray[Any]:
        """Return rows of tokens or of their loss mask, padded."""
        length, total, read = self._view.context_length, self.shards.num_tokens, self.shards.read
        out = np.empty((len(rows), length), dtype)
        for nth, row in enumerate(rows):
            held = min(length, total - row * self.stride)
            out[nth, :held] = read(row * self.stride, held, role)
            out[nth, held:] = pad
        return out

    def find(self, shard: int, begins: Int64s, ends: Int64s) -> Int64s:
        """Return the rows that hold a token of these ranges of a shard."""
        begins, ends = (each + self.shards.token_starts[shard] for each in (begins, ends))
        first = np.maximum(0, (begins - self._view.context_length) // self.stride + 1)
        counts = np.maximum(0, np.minimum((ends - 1) // self.stride, self.rows - 1) - first + 1)
        return np.repeat(first, counts) + count_within(counts)


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The rows of one shard: row *r* has the parts `bounds[r]..bounds[r + 1]`."""

    held: int
    dropped: int
    bounds: Int64s
    raw: NDArray[np.uint8]

    @property
    def parts(self) -> NDArray[Any]:
        """The start and the length of each part."""
        return self.raw.view(_PART)

    def encode(self) -> bytes:
        """Return the content of the index file."""
        sizes = len(self.bounds) - 1, len(self.parts), self.held, self.dropped
        head, body = _HEAD.pack(_MAGIC, *sizes), self.bounds.tobytes() + self.raw.tobytes()
        return head + _hash(head, body) + body


def _hash(head: bytes, body: bytes | memoryview) -> bytes:
    made = blake2b(head, digest_size=_HASH_BYTES)
    made.update(body)
    return made.digest()


class IndexLayout:
    """Rows located by the index of each shard. No row crosses shards."""

    def __init__(self, shards: MappedShards, view: View) -> None:
        self.shards = shards
        self._view = view
        # A cut conversation without a trained token is dropped.
        self._masked = shards.has_loss_mask and view.too_long is not None
        self._indexes: dict[int, ShardIndex] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexLayout, (self.shards, self._view)

    @cached_property
    def _counts(self) -> list[int]:
        """The number of rows of each shard. Missing indexes are computed."""
        heads = [self._read_head(shard) for shard in range(len(self.shards.entries))]
        missing = [shard for shard, head in enumerate(heads) if head is None]
        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
            made = dict(zip(missing, pool.map(self._make, missing), strict=True))
        return [len(made[nth].bounds) - 1 if head is None else head[1] for nth, head in enumerate(heads)]

    @cached_property
    def row_starts(self) -> list[int]:
        """The number of the first row of each shard, followed by the total."""
        if self.shards.endless:
            return number_sparsely(len(self.shards.entries))
        return [0, *accumulate(self._counts)]

    def count(self, shard: int) -> int:
        """Return the number of rows of a shard without computing other indexes."""
        if not self.shards.endless:
            return self._counts[shard]
        name = f"{VIEWS}/{self._name(shard)}.json"
        return self.shards.count_rows(name, lambda: len(self.index(shard).bounds) - 1)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.row_starts[-1]

    @property
    def dropped(self) -> int:
        """Tokens that no row holds."""
        return sum(self.index(shard).dropped for shard in range(len(self._counts)))

    @property
    def held(self) -> int:
        """Tokens in all rows, repeated ones included."""
        return sum(self.index(shard).held for shard in range(len(self._counts)))

    def locate(self, rows: Int64s) -> Iterator[Pieces]:
        """Yield the parts of documents in some rows, shard by shard."""
        starts = np.asarray(self.row_starts)
        shards = np.searchsorted(starts, rows, side="right") - 1
        for shard in np.unique(shards).tolist():
            mine = np.flatnonzero(shards == shard)
            index, local = self.index(shard), rows[mine] - starts[shard]
            first, counts = index.bounds[local], index.bounds[local + 1] - index.bounds[local]
            nth = np.repeat(mine, counts)
            parts = index.parts[np.repeat(first, counts) + count_within(counts)]
            length = parts["length"].astype(np.int64)
            place = find_places(nth, length, self._view.multiple_of)
            yield Pieces(shard, nth, place, parts["start"].astype(np.int64), length)

    def fill(self, rows: list[int], dtype: np.dtype[Any], pad: int, role: str = "tokens") -> NDArray[Any]:
        """Return rows of tokens or of their loss mask, padded."""
        stored = self.shards.dtype if role == "tokens" else np.dtype(find_column(role).stored)
        out = np.empty((len(rows), self._view.context_length), stored)
        starts, word = self.row_starts, np.dtype(f"u{stored.itemsize}")
        by_shard: dict[int, tuple[list[int], list[int]]] = {}
        for nth, row in enumerate(rows):
            shard = bisect_right(starts, row) - 1
            local, to = by_shard.setdefault(shard, ([], []))
            local.append(row - starts[shard])
            to.append(nth)
        flat, view = out.reshape(-1).view(word), self._view
        for shard, (local, to) in by_shard.items():
            index, tokens = self.index(shard), self.shards.file(shard, role).view(word)
            sizes = view.context_length, view.multiple_of, pad
            _core.copy_rows(tokens, index.bounds, index.raw, local, to, *sizes, flat)
        return out.astype(dtype, copy=False)

    def find(self, shard: int, begins: Int64s, ends: Int64s) -> Int64s:
        """Return the rows that hold a token of these ranges of a shard."""
        index = self.index(shard)
        start = index.parts["start"].astype(np.int64)
        end = start + index.parts["length"]
        hits = np.zeros(len(start), bool)
        for begin, stop in zip(begins.tolist(), ends.tolist(), strict=True):
            hits |= (start < stop) & (end > begin)
        rows = np.searchsorted(index.bounds, np.flatnonzero(hits), side="right") - 1
        return rows + self.row_starts[shard]

    def index(self, shard: int) -> ShardIndex:
        """Return the index of one shard, mapped on first use."""
        found = self._indexes.get(shard)
        if found is None:
            found = self._indexes[shard] = self._map(shard) or self._make(shard)
            if len(self._indexes) > self.shards.most_mapped:
                self._indexes.pop(list(self._indexes)[0], None)  # noqa: RUF015 - as in `MappedShards.file`
        return found

    def _name(self, shard: int) -> str:
        """Return the name of the index of a shard, a hash of the view and of the documents' lengths."""
        entry = self.shards.entries[shard]
        key = {"view": self._view.layout(), "offsets": entry.file(self.shards.offsets_role).sha256}
        if self._masked:
            key["mask"] = entry.file(LOSS_MASK).sha256
        return digest(key)[:32]

    def _paths(self, shard: int) -> list[Path]:
        """Return the possible paths of the index: next to the manifest, and in the cache directory."""
        if self.shards.endless:
            return []
        name = f"{self._name(shard)}.view"
        return [self.shards.root / VIEWS / name, cache_root() / VIEWS / name]

    def _read_head(self, shard: int) -> tuple[Path, int] | None:
        """Return the path and the rows of an index, or None without a file of the right size."""
        for path in self._paths(shard):
            if path.exists():
                with path.open("rb") as file:
                    head = file.read(_HEAD.size).ljust(_HEAD.size)
                magic, rows, parts, _, _ = _HEAD.unpack(head)
                size = _BODY + 8 * (rows + 1) + parts * _PART.itemsize
                if magic == _MAGIC and path.stat().st_size == size:
                    return path, rows
                logger.warning("%s is corrupt or of another version: the index is computed again", path)
        return None

    def _map(self, shard: int) -> ShardIndex | None:
        if (found := self._read_head(shard)) is None:
            return None
        path, rows = found
        data = np.memmap(path, np.uint8, "r")
        head, middle = bytes(data[: _HEAD.size]), _BODY + 8 * (rows + 1)
        if _hash(head, data[_BODY:].data) != bytes(data[_HEAD.size : _BODY]):
            logger.warning("%s does not match its checksum: the index is computed again", path)
            return None
        bounds = np.asarray(data[_BODY:middle]).view(np.int64)
        _, _, _, held, dropped = _HEAD.unpack(head)
        return ShardIndex(held, dropped, bounds, data[middle:])

    def _make(self, shard: int) -> ShardIndex:
        """Compute the index of a shard and save it."""
        offsets = self.shards.file(shard, "offsets")
        layer = Layer(self._view, self._counter(shard) if self._masked else None)
        counts, parts = [np.zeros(1, np.int64)], [np.empty(0, _PART)]
        ends = range(_AT_ONCE, len(offsets) + _AT_ONCE - 1, _AT_ONCE)
        lengths = (np.diff(offsets[end - _AT_ONCE : end + 1].astype(np.int64)) for end in ends)
        laid_rows = (laid for some in lengths for laid in layer.push(some))
        for laid in chain(laid_rows, layer.finish()):
            counts.append(np.bincount(laid.row, minlength=laid.rows))
            made = np.empty(len(laid.start), _PART)
            made["start"] = offsets[laid.document].astype(np.int64) + laid.start
            made["length"] = laid.length
            parts.append(made)
        bounds = np.cumsum(np.concatenate(counts))
        every = np.concatenate(parts)
        held = int(every["length"].sum(dtype=np.int64))
        index = ShardIndex(held, layer.dropped.total(), bounds, every.view(np.uint8))
        for path in self._paths(shard):
            try:
                publish_bytes(path, index.encode())
            except OSError:
                continue  # a read-only dataset
            break
        return index

    def _counter(self, shard: int) -> Any:
        """Return a function that counts the trained tokens in parts of documents of a shard."""
        offsets, mask = self.shards.file(shard, "offsets"), self.shards.file(shard, LOSS_MASK)

        def count(documents: Int64s, starts: Int64s, ends: Int64s) -> Int64s:
            base = offsets[documents].astype(np.int64)
            pairs = zip((base + starts).tolist(), (base + ends).tolist(), strict=True)
            return np.array([np.count_nonzero(mask[a:b]) for a, b in pairs], dtype=np.int64)

        return count
