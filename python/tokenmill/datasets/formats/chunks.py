"""The formats of streaming libraries, `litdata` and `mds`: files of up to 64 MiB and one `index.json`.

Both layouts are written directly, without torch or the libraries themselves.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    A file has the number of items, their u32 offsets, a header and the items. Files of an unfinished unit
    have no receipt, and a retry overwrites them.
    """

    suffix = ""
    header = b""

    def __init__(self, shape: ShardShape) -> None:
        widths = [shape.dtype, *(find_column(name).stored for name in shape.columns)]
        # Offsets have 32 bits, so a chunk must stay well below 4 GiB even with a large last item.
        most = _CHUNK_BYTES // sum(np.dtype(each).itemsize for each in widths)
        super().__init__(shape, items=1 << 22, tokens=most)
        self._names = sorted([self.tokens_as, *shape.columns])
        self._chunks: list[FileEntry] = []

    @abstractmethod
    def encode(self, values: list[NDArray[Any]]) -> bytes:
        """Return one item: its tokens and columns, sorted by name."""

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """Publish the next file."""
        columns = [arrays[name] for name in self._names]
        items = [self.encode([each[start:stop] for each in columns]) for start, stop in pairwise(offsets)]
        first = 4 + 4 * len(offsets) + len(self.header)
        places = (first + make_offsets(np.array([len(item) for item in items]))).astype("<u4")
        file = self.shape.open(f".{len(self._chunks):05d}{self.suffix}")
        try:
            for part in (len(items).to_bytes(4, "little"), places, self.header, b"".join(items)):
                file.write(part)
            self._chunks.append(self.shape.publish("chunk", file, len(items)))
        finally:
            file.discard()

    def close(self) -> list[FileEntry]:
        """Write the last chunk and return the entries of all files."""
        return super().close() + self._chunks


class LitDataWriter(ChunkWriter):
    """Bare tokens. With a loss mask, an item is a dictionary: the u32 sizes of two arrays, then both."""

    suffix = ".bin"
    tokens_as = "input_ids"

    def encode(self, values: list[NDArray[Any]]) -> bytes:
        """Return one item."""
        parts = [each.tobytes() for each in values]
        sizes = b"" if len(parts) == 1 else np.array([len(part) for part in parts], "<u4").tobytes()
        return sizes + b"".join(parts)


def _list_chunks(manifest: Manifest) -> list[FileEntry]:
    return [entry for shard in manifest.shards for entry in shard.files if entry.role == "chunk"]


def _finish_litdata(root: Path, manifest: Manifest) -> None:
    """Let `litdata.StreamingDataset(DIR, item_loader=TokensLoader(n))` open all shards.

    With a loss mask it is `litdata.StreamingDataset(DIR)`.
    """
    masked = LOSS_MASK in manifest.packing.columns
    width = np.dtype(manifest.dtype).itemsize
    chunks = []
    for entry in _list_chunks(manifest):
        count = entry.items or 0
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
    """Samples behind a header of JSON. Columns of rows are bare, those of documents have sizes and shapes."""

    suffix = ".mds"

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        described = _describe_mds(shape.dtype, shape.context_length, shape.columns)
        self.header = json.dumps(described, sort_keys=True).encode()

    def encode(self, values: list[NDArray[Any]]) -> bytes:
        """Return one sample. A shape is a byte for its dimensions and width, and the length."""
        parts = [each.tobytes() for each in values]
        if self.shape.context_length is not None:
            return b"".join(parts)
        length = len(values[0])
        code = (length >= 1 << 8) + (length >= 1 << 16)
        shape = bytes([1 << 2 | code]) + length.to_bytes(1 << code, "little")
        sizes = np.array([len(shape) + len(part) for part in parts], "<u4").tobytes()
        return sizes + b"".join(shape + part for part in parts)


def _finish_mds(root: Path, manifest: Manifest) -> None:
    """Let `streaming.StreamingDataset(local=DIR)` open all shards."""
    config = _describe_mds(manifest.dtype, manifest.row_length, manifest.packing.columns)
    shards = []
    for entry in _list_chunks(manifest):
        raw = {"basename": entry.path, "bytes": entry.bytes, "hashes": {}}
        shards.append(config | {"raw_data": raw, "samples": entry.items or 0, "zip_data": None})
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
