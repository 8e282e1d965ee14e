"""The `datatrove` format: bare tokens in `.ds` with `.ds.index` and `.ds.metadata`, as for nanotron."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core
from tokenmill.datasets.formats.files import cut_items, map_file
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.formats.writer import ShardWriter
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tokenmill.datasets.formats.files import Items, ShardShape
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry


class DatatroveWriter(ShardWriter):
    """Write tokens, the u64 end of each document, and datatrove's description of the file."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".ds")
        self._ends = self.open("index", ".ds.index")
        self._metadata = self.open("metadata", ".ds.metadata")

    def write(self, items: Items) -> None:
        """Append documents."""
        self._ends.write(_core.stored_ends(items.offsets, self.position))
        self.write_tokens(items)

    def close(self) -> list[FileEntry]:
        """Write the width and the number of tokens, and publish."""
        size = np.dtype(self.shape.dtype).itemsize
        self._metadata.write(f"tokenmill|{size}\n{self.position}\n{_abbreviate(self.position)}".encode())
        return super().close()


def _abbreviate(count: int) -> str:
    """`1234567` -> `1.23 MT`."""
    for power, name in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {name}T"
    return f"{count} T"


def _read(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    tokens = map_file(root, shard.file("tokens"), manifest.dtype)
    ends = map_file(root, shard.file("index"), "uint64")
    if len(ends) and int(ends.max()) > len(tokens):
        raise DatasetError(
            f"shard {shard.name}: its index ends after its {len(tokens)} tokens: it is damaged"
        )
    return cut_items(shard, tokens, np.concatenate([[0], ends]).astype(np.int64))


DATATROVE = Format(
    name="datatrove",
    writer=DatatroveWriter,
    reader=_read,
    read_by="datatrove's DatatroveFolderDataset and nanotron",
    dtypes=("uint16", "uint32"),
    # The loss mask of datatrove is a file of its own for fine-tuning; pre-training has none.
    holds_columns=False,
    bytes_per_document=8,
)
