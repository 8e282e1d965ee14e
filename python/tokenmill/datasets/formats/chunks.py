"""The formats of streaming libraries, `litdata` and `mds`: files of up to 64 MiB and one `index.json`.

Both layouts are written directly, without torch or the libraries themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.durable import publish_json
from tokenmill.datasets.documents import LOSS_MASK, find_column, make_offsets
from tokenmill.datasets.formats.files import BatchWriter, Columns, ShardShape
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.ledger.manifest import Manifest
from tokenmill.datasets.ledger.receipt import FileEntry

_INDEX = "index.json"
_CHUNK_BYTES = 1 << 26
# LitData's own numbers for torch types.
_TORCH_CODES = {"uint16": 20, "int32": 16, "int64": 18}
_INT8 = 12
# Trees as torch spells tree specifications: one leaf, and a dictionary of two.
_LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
_PAIR = {
    "type": "builtins.dict",
    "context": json.dumps(["input_ids", LOSS_MASK]),
    "children_spec": [_LEAF, _LEAF],
}


class ChunkWriter(BatchWriter):
    """Write one file per batch: `.00000.bin`, then `.00001.bin`. Publish each as soon as it is full.

    Files of an unfinished unit have no receipt, and a retry overwrites them.
    """

    role = suffix = ""

    def __init__(self, shape: ShardShape, bytes_per_token: int) -> None:
        # Offsets have 32 bits, so a chunk must stay well below 4 GiB even with a large last item.
        super().__init__(shape, items=1 << 22, tokens=_CHUNK_BYTES // bytes_per_token)
        self._chunks: list[FileEntry] = []

    def write_chunk(self, items: int, *parts: Any) -> None:
        """Publish the next file: the number of items, followed by `parts`."""
        file = self.shape.open(f".{len(self._chunks):05d}{self.suffix}")
        try:
            for part in (items.to_bytes(4, "little"), *parts):
                file.write(part)
            self._chunks.append(self.shape.publish(self.role, file, items))
        finally:
            file.discard()

    def close(self) -> list[FileEntry]:
        """Write the last chunk and return the entries of all files."""
        return super().close() + self._chunks

    @classmethod
    def list_chunks(cls, manifest: Manifest) -> Iterator[tuple[FileEntry, int]]:
        """Yield every file of a finished dataset and its number of items."""
        for entry in (entry for shard in manifest.shards for entry in shard.files if entry.role == cls.role):
            yield entry, entry.items or 0


class LitDataWriter(ChunkWriter):
    """Bare tokens behind u32 offsets. With a loss mask an item is a dictionary of two arrays."""

    role = "chunk"
    suffix = ".bin"

    def __init__(self, shape: ShardShape) -> None:
        self._width = np.dtype(shape.dtype).itemsize
        self._masked = LOSS_MASK in shape.columns
        super().__init__(shape, self._width + self._masked)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """Write the offsets of the items and their tokens."""
        count, tokens = len(offsets) - 1, arrays[self.tokens_as]
        head = 4 + 4 * (count + 1)
        if not self._masked:
            self.write_chunk(count, (head + offsets * self._width).astype("<u4"), tokens)
            return
        pairs = [(tokens[a:b].tobytes(), arrays[LOSS_MASK][a:b].tobytes()) for a, b in pairwise(offsets)]
        # The u32 sizes of both arrays, then the arrays.
        items = [np.array([len(a), len(b)], "<u4").tobytes() + a + b for a, b in pairs]
        places = head + make_offsets(np.array([len(item) for item in items]))
        self.write_chunk(count, places.astype("<u4"), b"".join(items))


def _finish_litdata(root: Path, manifest: Manifest) -> None:
    """Let `litdata.StreamingDataset(DIR, item_loader=TokensLoader(n))` open all shards.

    With a loss mask it is `litdata.StreamingDataset(DIR)`.
    """
    masked = LOSS_MASK in manifest.packing.columns
    width = np.dtype(manifest.dtype).itemsize
    chunks = []
    for entry, count in LitDataWriter.list_chunks(manifest):
        size = entry.bytes - 4 - 4 * (count + 1)
        dim = None if masked else size // width
        chunks.append({"chunk_bytes": size, "chunk_size": count, "dim": dim, "filename": entry.path})
    codes = [_TORCH_CODES[manifest.dtype], *([_INT8] if masked else [])]
    config = {
        "chunk_bytes": _CHUNK_BYTES,
        "chunk_size": None,
        "compression": None,
        "data_format": [f"no_header_tensor:{code}" for code in codes],
        "data_spec": json.dumps([1, _PAIR if masked else _LEAF]),
        "encryption": None,
        "item_loader": "PyTreeLoader" if masked else "TokensLoader",
    }
    publish_json(root / _INDEX, {"chunks": chunks, "config": config})


def _describe_mds(dtype: str, row_length: int | None, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return the header of every file: names, encodings and sizes of the columns, sorted by name."""
    types = {MdsWriter.tokens_as: dtype} | {name: find_column(name).stored for name in columns}
    names = sorted(types)
    shape = "" if row_length is None else f":{row_length}"
    return {
        "column_encodings": [f"ndarray:{types[name]}{shape}" for name in names],
        "column_names": names,
        "column_sizes": [row_length and np.dtype(types[name]).itemsize * row_length for name in names],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": _CHUNK_BYTES,
        "version": 2,
    }


class MdsWriter(ChunkWriter):
    """Samples behind u32 offsets and a header of JSON."""

    role = "mds"
    suffix = ".mds"

    def __init__(self, shape: ShardShape) -> None:
        widths = (np.dtype(find_column(name).stored).itemsize for name in shape.columns)
        super().__init__(shape, np.dtype(shape.dtype).itemsize + sum(widths))
        self._config = _describe_mds(shape.dtype, shape.context_length, shape.columns)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """Write the offsets of the samples, the header and the samples."""
        count = len(offsets) - 1
        columns = [np.ascontiguousarray(arrays[name]) for name in self._config["column_names"]]
        if self.shape.context_length is not None:
            body = np.hstack([column.view(np.uint8).reshape(count, -1) for column in columns])
            sizes = np.full(count, body.shape[1], dtype=np.int64)
        else:
            body, sizes = _make_samples(columns, offsets)
        config = json.dumps(self._config, sort_keys=True).encode()
        places = 4 + 4 * (count + 1) + len(config) + make_offsets(sizes)
        self.write_chunk(count, places.astype("<u4"), config, body)


def _make_samples(
    columns: list[NDArray[Any]], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all samples, flat, and the size of each: the u32 sizes of its columns, then each of them.

    A value is a byte for its dimensions and the width of its shape, the shape, and the numbers themselves.
    """
    lengths = np.diff(offsets)
    codes = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
    shapes = np.left_shift(1, codes)
    sizes = [1 + shapes + lengths * each.itemsize for each in columns]
    total = 4 * len(columns) + np.sum(sizes, axis=0)
    place = np.cumsum(total) - total
    body = np.zeros(int(total.sum()), dtype=np.uint8)
    for size in sizes:
        _put(body, place, size, 4)
        place = place + 4
    for each, size in zip(columns, sizes, strict=True):
        body[place] = 1 << 2 | codes
        for code in range(3):
            some = codes == code
            _put(body, place[some] + 1, lengths[some], 1 << code)
        start, width = place + 1 + shapes, each.itemsize
        _core.copy_segments(each.view(np.uint8), offsets[:-1] * width, start, lengths * width, body)
        place = place + size
    return body, total


def _put(body: NDArray[np.uint8], places: NDArray[np.int64], numbers: NDArray[np.int64], width: int) -> None:
    """Write a little-endian number of `width` bytes at each offset in `places`."""
    for at in range(width):
        body[places + at] = (numbers >> 8 * at) & 0xFF


def _finish_mds(root: Path, manifest: Manifest) -> None:
    """Let `streaming.StreamingDataset(local=DIR)` open all shards."""
    config = _describe_mds(manifest.dtype, manifest.row_length, manifest.packing.columns)
    shards = []
    for entry, samples in MdsWriter.list_chunks(manifest):
        raw = {"basename": entry.path, "bytes": entry.bytes, "hashes": {}}
        shards.append(config | {"raw_data": raw, "samples": samples, "zip_data": None})
    publish_json(root / _INDEX, {"version": 2, "shards": shards})


LITDATA = Format(
    name="litdata",
    writer=LitDataWriter,
    read_by="litdata.StreamingDataset",
    dtypes=tuple(_TORCH_CODES),
    holds_columns=False,
    extra_files=(_INDEX,),
    finish=_finish_litdata,
)
MDS = Format(
    name="mds",
    writer=MdsWriter,
    read_by="streaming.StreamingDataset",
    extra_files=(_INDEX,),
    finish=_finish_mds,
)
