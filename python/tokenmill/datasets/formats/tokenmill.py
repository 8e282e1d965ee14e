"""The `tokenmill` format: bare tokens, u64 offsets or segments, bare columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.datasets.formats.index import HEADER, OFFSETS_MAGIC, SEGMENTS_MAGIC, header

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.formats.shard import Columns, ShardShape
    from tokenmill.datasets.ledger.receipt import FileEntry

# What a memoryview calls the types of ids.
_FORMATS = {"uint16": "H", "uint32": "I"}


class NativeWriter:
    """Writes `.bin`, `.idx` or `.seg`, and one `.bin` per column."""

    def __init__(self, shape: ShardShape) -> None:
        """Open the files of the shard under temporary names."""
        self._shape = shape
        self._rows = shape.context_length is not None
        self._tokens = shape.open(".bin")
        self._index = shape.open(".seg" if self._rows else ".idx")
        self._columns = {name: shape.open(f".{name}.bin") for name in shape.columns}
        self._index.write(b"\0" * HEADER.size)
        self._count = 0
        self._position = 0
        if not self._rows:
            self._index.write(bytes(8))

    def write(
        self,
        ids: memoryview | NDArray[Any],
        offsets: memoryview | NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append documents, or rows with the segments that fill them; documents may come as bare views."""
        tokens = ids[offsets[0] : offsets[-1]]
        self._tokens.write(tokens if self._as_stored(tokens) else self._shape.stored(tokens))
        if segments is not None:
            placed = segments + np.array([0, 0, self._position, 0], dtype="<u8")
            self._index.write(placed)
            self._count += len(placed)
        elif not self._rows:
            self._index.write(_core.stored_ends(offsets, self._position))
            self._count += len(offsets) - 1
        for name, file in self._columns.items():
            file.write(np.ascontiguousarray(columns[name]))
        self._position += int(offsets[-1]) - int(offsets[0])

    def _as_stored(self, ids: Any) -> bool:
        """Whether a view has the bytes of the file already."""
        same = isinstance(ids, memoryview) and ids.format == _FORMATS[self._shape.dtype]
        return same and sys.byteorder == "little"

    def close(self) -> list[FileEntry]:
        """Publish tokens, index and columns."""
        self._index.write_head(header(SEGMENTS_MAGIC if self._rows else OFFSETS_MAGIC, self._count))
        shape = self._shape
        entries = [
            shape.publish("tokens", self._tokens),
            shape.publish("segments" if self._rows else "offsets", self._index),
        ]
        return entries + [shape.publish(name, file) for name, file in self._columns.items()]

    def discard(self) -> None:
        """Remove what was not published."""
        for file in (self._tokens, self._index, *self._columns.values()):
            file.discard()
