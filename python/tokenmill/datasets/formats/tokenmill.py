"""The `tokenmill` format: bare tokens, u64 offsets or segments, bare columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core
from tokenmill.datasets.formats.files import (
    HEADER,
    OFFSETS_MAGIC,
    SEGMENTS_MAGIC,
    Items,
    ShardShape,
    StoredShard,
    make_header,
    map_offsets,
    map_segments,
)
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.formats.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Iterator


class NativeWriter(ShardWriter):
    """Write `.bin`, `.idx` or `.seg`, and one `.bin` per column."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self._rows = shape.context_length is not None
        self.open("tokens", ".bin")
        self._index = self.open("segments", ".seg") if self._rows else self.open("offsets", ".idx")
        for name in shape.columns:
            self.open(name, f".{name}.bin")
        # The header counts what follows it; the first offset is 0.
        self._index.write(bytes(HEADER.size if self._rows else HEADER.size + 8))
        self._count = 0

    def write(self, items: Items) -> None:
        """Append documents, or rows with the segments that fill them."""
        if items.segments is not None:
            self._index.write(items.segments + np.array([0, 0, self.position, 0], dtype="<u8"))
            self._count += len(items.segments)
        elif not self._rows:
            self._index.write(_core.stored_ends(items.offsets, self.position))
            self._count += len(items.offsets) - 1
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the index's header."""
        self._index.write_head(make_header(SEGMENTS_MAGIC if self._rows else OFFSETS_MAGIC, self._count))


def _read(shard: StoredShard) -> Iterator[Items]:
    tokens, columns = shard.map_tokens(), shard.map_columns()
    if shard.manifest.layout == "documents":
        return shard.cut(tokens, map_offsets(shard.path("offsets")), columns)
    return shard.cut(tokens, None, columns, map_segments(shard.path("segments")))


TOKENMILL = Format(
    name="tokenmill",
    writer=NativeWriter,
    reader=_read,
    read_by="tokenmill.open",
    mapped=True,
    dtypes=("uint16", "uint32"),
    bytes_per_document=8,
)
