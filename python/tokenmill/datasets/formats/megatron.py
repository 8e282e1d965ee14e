"""The `megatron` format: `.bin` of bare tokens and the `.idx` that Megatron's indexed dataset maps.

A loss mask is a second indexed dataset beside it, `<shard>.loss_mask`, with the same sequences.
"""

from __future__ import annotations

import struct
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.columns import LOSS_MASK, find_column
from tokenmill.datasets.ledger.receipt import SHARDS
from tokenmill.datasets.shards.flat import cut_items, map_file
from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.writer import ShardWriter
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry
    from tokenmill.datasets.shards.items import Items, ShardShape

_MAGIC = b"MMIDIDX\0\0"
_HEAD = struct.Struct("<QBQQ")
_DTYPE_CODES = {"uint16": 8, "int32": 4, "int64": 5}
_INT8 = 2
_MASK_INDEX = "loss_mask_index"
_SPOOL_BYTES = 1 << 20


class MegatronWriter(ShardWriter):
    """One sequence and one document per item."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self._tokens = self.open("tokens", ".bin")
        self._index = self.open("index", ".idx")
        self._mask = self.open(LOSS_MASK, f".{LOSS_MASK}.bin") if LOSS_MASK in shape.columns else None
        self._mask_index = self.open(_MASK_INDEX, f".{LOSS_MASK}.idx") if self._mask is not None else None
        self._lengths = _Spool(shape.root / SHARDS)

    def write(self, items: Items) -> None:
        """Append sequences; the index is written from their lengths at the end."""
        ids, offsets = items.ids, items.offsets
        self._tokens.write(self.shape.store(ids[offsets[0] : offsets[-1]]))
        self._lengths.append(np.diff(offsets))
        if self._mask is not None:
            self._mask.write(np.ascontiguousarray(items.columns[LOSS_MASK][offsets[0] : offsets[-1]]))

    def close(self) -> list[FileEntry]:
        """Write the index of each file and publish all."""
        dtype = self.shape.dtype
        _write_index(self._index, self._lengths, _DTYPE_CODES[dtype], np.dtype(dtype).itemsize)
        if self._mask_index is not None:
            _write_index(self._mask_index, self._lengths, _INT8, 1)
        self._lengths.close()
        return super().close()

    def discard(self) -> None:
        """Remove what was not published."""
        self._lengths.close()
        super().discard()


def _write_index(file: DurableFile, lengths: _Spool, code: int, itemsize: int) -> None:
    """Header, i32 lengths, i64 byte offsets, i64 document starts."""
    count = lengths.count
    file.write(_MAGIC + _HEAD.pack(1, code, count, count + 1))
    for chunk in lengths.read_chunks():
        file.write(chunk)
    position = 0
    for chunk in lengths.read_chunks():
        ends = position + np.cumsum(chunk.astype(np.int64) * itemsize)
        file.write(np.concatenate([[position], ends[:-1]]).astype("<i8"))
        position = int(ends[-1])
    for start in range(0, count + 1, _SPOOL_BYTES):
        file.write(np.arange(start, min(start + _SPOOL_BYTES, count + 1), dtype="<i8"))


class _Spool:
    """The lengths of a shard's sequences until its end, on the disk so that memory stays bounded."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self.count = 0

    def append(self, lengths: NDArray[Any]) -> None:
        """Add lengths at the end."""
        self._file.write(np.ascontiguousarray(lengths, dtype="<i4").data)
        self.count += len(lengths)

    def read_chunks(self) -> Iterator[NDArray[Any]]:
        """All lengths again, some at a time."""
        self._file.seek(0)
        while data := self._file.read(_SPOOL_BYTES):
            yield np.frombuffer(data, dtype="<i4")

    def close(self) -> None:
        """Give the space back."""
        self._file.close()


def _read(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    tokens = map_file(root, shard.file("tokens"), manifest.dtype)
    columns = {}
    if LOSS_MASK in manifest.packing.columns:
        columns[LOSS_MASK] = map_file(root, shard.file(LOSS_MASK), find_column(LOSS_MASK).stored)
    offsets = _read_offsets(root / shard.file("index").path, manifest.dtype)
    return cut_items(shard, tokens, offsets, columns)


def _read_offsets(path: Path, dtype: str) -> NDArray[np.int64]:
    raw = path.read_bytes()
    at = len(_MAGIC) + _HEAD.size
    if not raw.startswith(_MAGIC) or len(raw) < at:
        raise DatasetError(f"{path} does not start like a Megatron index: it is damaged")
    _, code, sequences, documents = _HEAD.unpack_from(raw, len(_MAGIC))
    if code != _DTYPE_CODES[dtype] or len(raw) != at + 12 * sequences + 8 * documents:
        raise DatasetError(f"{path} has {len(raw)} bytes and type code {code}, which do not match its header")
    lengths = np.frombuffer(raw, "<i4", sequences, at).astype(np.int64)
    pointers = np.frombuffer(raw, "<i8", sequences, at + 4 * sequences)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if not np.array_equal(pointers, offsets[:-1] * np.dtype(dtype).itemsize):
        raise DatasetError(f"{path}: its pointers are not the running sum of its lengths: it is damaged")
    return offsets


FORMAT = Format(
    name="megatron",
    writer=MegatronWriter,
    reader=_read,
    read_by="Megatron's IndexedDataset",
    prefixes=True,
    dtypes=tuple(_DTYPE_CODES),
    # Megatron reads vocabularies below this as u16, larger ones as i32.
    u16_vocabulary=65_500,
    # Megatron has no place for columns that follow from documents: it makes those itself.
    holds_columns=False,
    bytes_per_document=20,
)
