"""The `megatron` format: `.bin` of bare tokens and the `.idx` that Megatron's indexed dataset maps.

A loss mask is a second indexed dataset beside it, `<shard>.loss_mask`, with the same sequences.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.columns import LOSS_MASK
from tokenmill.datasets.documents import make_offsets
from tokenmill.datasets.formats.files import ShardWriter
from tokenmill.datasets.formats.format import Format
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.formats.files import Items, ShardShape, StoredShard

_MAGIC = b"MMIDIDX\0\0"
_HEAD = struct.Struct("<QBQQ")
_DTYPE_CODES = {"uint16": 8, "int32": 4, "int64": 5}
_INT8 = 2
_MASK_INDEX = "loss_mask_index"


class MegatronWriter(ShardWriter):
    """Write one sequence and one document per item."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".bin")
        self.open("index", ".idx")
        if LOSS_MASK in shape.columns:
            self.open(LOSS_MASK, f".{LOSS_MASK}.bin")
            self.open(_MASK_INDEX, f".{LOSS_MASK}.idx")
        self._lengths: list[NDArray[np.int32]] = []

    def write(self, items: Items) -> None:
        """Append sequences; the index is written from their lengths at the end."""
        self._lengths.append(np.diff(items.offsets).astype("<i4"))
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the index of each file."""
        dtype = self.shape.dtype
        self._write_index(self.files["index"], _DTYPE_CODES[dtype], np.dtype(dtype).itemsize)
        if _MASK_INDEX in self.files:
            self._write_index(self.files[_MASK_INDEX], _INT8, 1)

    def _write_index(self, file: DurableFile, code: int, itemsize: int) -> None:
        """Write header, i32 lengths, i64 byte offsets, i64 document starts."""
        lengths = np.concatenate([np.empty(0, "<i4"), *self._lengths])
        file.write(_MAGIC + _HEAD.pack(1, code, len(lengths), len(lengths) + 1))
        file.write(lengths)
        file.write((make_offsets(lengths)[:-1] * itemsize).astype("<i8"))
        file.write(np.arange(len(lengths) + 1, dtype="<i8"))


def _read(shard: StoredShard) -> Iterator[Items]:
    offsets = _read_offsets(shard.path("index"), shard.manifest.dtype)
    return shard.cut(shard.map_tokens(), offsets, shard.map_columns())


def _read_offsets(path: Path, dtype: str) -> NDArray[np.int64]:
    raw = path.read_bytes()
    at = len(_MAGIC) + _HEAD.size
    if not raw.startswith(_MAGIC) or len(raw) < at:
        raise DatasetError(f"{path} does not start like a Megatron index: it is damaged")
    _, code, sequences, documents = _HEAD.unpack_from(raw, len(_MAGIC))
    if code != _DTYPE_CODES[dtype] or len(raw) != at + 12 * sequences + 8 * documents:
        raise DatasetError(f"{path} has {len(raw)} bytes and type code {code}, which do not match its header")
    offsets = make_offsets(np.frombuffer(raw, "<i4", sequences, at).astype(np.int64))
    pointers = np.frombuffer(raw, "<i8", sequences, at + 4 * sequences)
    if not np.array_equal(pointers, offsets[:-1] * np.dtype(dtype).itemsize):
        raise DatasetError(f"{path}: its pointers are not the running sum of its lengths: it is damaged")
    return offsets


MEGATRON = Format(
    name="megatron",
    writer=MegatronWriter,
    reader=_read,
    read_by="Megatron's IndexedDataset",
    prefixes=True,
    dtypes=tuple(_DTYPE_CODES),
    # Megatron reads vocabularies below this as u16, larger ones as i32.
    u16_vocabulary=65_500,
    # Megatron makes columns that follow from documents itself.
    holds_columns=False,
    bytes_per_document=20,
)
