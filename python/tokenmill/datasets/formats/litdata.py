"""The `litdata` format: chunks of bare tokens behind u32 offsets, and one `index.json`.

The layout is written directly, so no torch is needed to make it; the `litdata` extra (`TokensLoader`) is
what reads it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.base.durable import publish_json
from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.writer import ChunkWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.shards.items import Columns, ShardShape

_INDEX = "index.json"
# LitData's own numbers for torch types.
_TORCH_CODES = {"uint16": 20, "int32": 16, "int64": 18}
# A tree that is one leaf, in the spelling of torch's tree specifications.
_LEAF = json.dumps([1, {"type": None, "context": None, "children_spec": []}])


class LitDataWriter(ChunkWriter):
    """Gathers up to 64 MiB of items, then writes them as one chunk."""

    role = "chunk"
    suffix = ".bin"

    def __init__(self, shape: ShardShape) -> None:
        self._width = np.dtype(shape.dtype).itemsize
        super().__init__(shape, self._width)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """The places of the items, their tokens."""
        count = len(offsets) - 1
        places = (4 + 4 * (count + 1) + offsets * self._width).astype("<u4")
        self.write_chunk(count, places, arrays[self.tokens_as])


def _finish(root: Path, manifest: Manifest) -> None:
    """So that `litdata.StreamingDataset(DIR, item_loader=TokensLoader(n))` opens all shards."""
    width = np.dtype(manifest.dtype).itemsize
    chunks = []
    for entry, count in LitDataWriter.chunks(root, manifest):
        size = entry.bytes - 4 - 4 * (count + 1)
        chunk = {"chunk_bytes": size, "chunk_size": count, "dim": size // width, "filename": entry.path}
        chunks.append(chunk)
    config = {
        "chunk_bytes": LitDataWriter.chunk_bytes,
        "chunk_size": None,
        "compression": None,
        "data_format": [f"no_header_tensor:{_TORCH_CODES[manifest.dtype]}"],
        "data_spec": _LEAF,
        "encryption": None,
        "item_loader": "TokensLoader",
    }
    publish_json(root / _INDEX, {"chunks": chunks, "config": config})


FORMAT = Format(
    name="litdata",
    writer=LitDataWriter,
    read_by="litdata.StreamingDataset",
    dtypes=tuple(_TORCH_CODES),
    holds_columns=False,
    bytes_per_document=4,
    beside=(_INDEX,),
    finish=_finish,
)
