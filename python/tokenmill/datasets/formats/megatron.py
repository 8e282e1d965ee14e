"""The `megatron` format: `.bin` of bare tokens and the `.idx` that Megatron's indexed dataset maps."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.formats.shard import SPOOL_BYTES, Spool
from tokenmill.datasets.ledger.receipt import SHARDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.formats.shard import Columns, ShardShape
    from tokenmill.datasets.ledger.receipt import FileEntry

MAGIC = b"MMIDIDX\0\0"
DTYPE_CODES = {"uint16": 8, "int32": 4, "int64": 5}


class MegatronWriter:
    """One sequence and one document per item. Megatron has no place for columns: it masks by itself."""

    def __init__(self, shape: ShardShape) -> None:
        """Open `.bin`; the index is written from the lengths at the end."""
        self._shape = shape
        self._tokens = shape.open(".bin")
        self._index = shape.open(".idx")
        self._lengths = Spool(shape.root / SHARDS, "<i4")

    def write(
        self,
        ids: NDArray[Any],
        offsets: NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append sequences."""
        del columns, segments
        self._tokens.write(self._shape.stored(ids[offsets[0] : offsets[-1]]))
        self._lengths.append(np.diff(offsets))

    def close(self) -> list[FileEntry]:
        """Write the index and publish both."""
        write_index(self._index, self._lengths, self._shape.dtype)
        self._lengths.close()
        return [self._shape.publish("tokens", self._tokens), self._shape.publish("index", self._index)]

    def discard(self) -> None:
        """Remove what was not published."""
        self._lengths.close()
        self._tokens.discard()
        self._index.discard()


def write_index(file: DurableFile, lengths: Spool, dtype: str) -> None:
    """Header, i32 lengths, i64 byte offsets, i64 document starts."""
    count = lengths.count
    file.write(MAGIC + struct.pack("<QBQQ", 1, DTYPE_CODES[dtype], count, count + 1))
    for chunk in lengths.chunks():
        file.write(chunk)
    itemsize, position = np.dtype(dtype).itemsize, 0
    for chunk in lengths.chunks():
        ends = position + np.cumsum(chunk.astype(np.int64) * itemsize)
        file.write(np.concatenate([[position], ends[:-1]]).astype("<i8"))
        position = int(ends[-1])
    for start in range(0, count + 1, SPOOL_BYTES):
        file.write(np.arange(start, min(start + SPOOL_BYTES, count + 1), dtype="<i8"))
