"""The `datatrove` format: bare tokens in `.ds`, `.ds.index`, `.ds.metadata` and `.ds.loss` (loss mask)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core
from tokenmill.datasets.columns import LOSS_MASK
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.formats.writer import ShardWriter
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.datasets.formats.files import Items, ShardShape, StoredShard


class DatatroveWriter(ShardWriter):
    """Write tokens, the u64 end of each document, and datatrove's description of the file."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".ds")
        self._ends = self.open("index", ".ds.index")
        if LOSS_MASK in shape.columns:
            self.open(LOSS_MASK, ".ds.loss")
        self._metadata = self.open("metadata", ".ds.metadata")

    def write(self, items: Items) -> None:
        """Append documents."""
        self._ends.write(_core.stored_ends(items.offsets, self.position))
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the width and the number of tokens."""
        size = np.dtype(self.shape.dtype).itemsize
        self._metadata.write(f"tokenmill|{size}\n{self.position}\n{_abbreviate(self.position)}".encode())


def _abbreviate(count: int) -> str:
    """`1234567` -> `1.23 MT`."""
    for power, name in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {name}T"
    return f"{count} T"


def _read(shard: StoredShard) -> Iterator[Items]:
    tokens, ends = shard.map_tokens(), shard.map("index", "uint64")
    if len(ends) and int(ends.max()) > len(tokens):
        raise DatasetError(
            f"shard {shard.entry.name}: its index ends after its {len(tokens)} tokens: it is damaged"
        )
    return shard.cut(tokens, np.concatenate([[0], ends]), shard.map_columns())


DATATROVE = Format(
    name="datatrove",
    writer=DatatroveWriter,
    reader=_read,
    read_by="datatrove's DatatroveFolderDataset and nanotron",
    dtypes=("uint16", "uint32"),
    holds_columns=False,
    bytes_per_document=8,
)
