"""The `litdata` format: chunks of bare tokens behind u32 offsets, and one `index.json`.

With a loss mask an item is a dictionary of two arrays, which LitData reads without a `TokensLoader`.

The layout is written directly, so no torch is needed to make it; the `litdata` extra (`TokensLoader`) is
what reads it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import publish_json
from tokenmill.datasets.columns import LOSS_MASK
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
_INT8 = 12
# Trees in the spelling of torch's tree specifications: one leaf, and a dictionary of two.
_LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
_PAIR = {
    "type": "builtins.dict",
    "context": json.dumps(["input_ids", LOSS_MASK]),
    "children_spec": [_LEAF, _LEAF],
}


class LitDataWriter(ChunkWriter):
    """Gathers up to 64 MiB of items, then writes them as one chunk."""

    role = "chunk"
    suffix = ".bin"

    def __init__(self, shape: ShardShape) -> None:
        self._width = np.dtype(shape.dtype).itemsize
        self._masked = LOSS_MASK in shape.columns
        super().__init__(shape, self._width + self._masked)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """The places of the items, their tokens."""
        count = len(offsets) - 1
        head = 4 + 4 * (count + 1)
        if not self._masked:
            self.write_chunk(count, (head + offsets * self._width).astype("<u4"), arrays[self.tokens_as])
            return
        items = [
            _make_item(arrays[self.tokens_as][a:b], arrays[LOSS_MASK][a:b]) for a, b in pairwise(offsets)
        ]
        places = head + np.concatenate([[0], np.cumsum([len(item) for item in items])])
        self.write_chunk(count, places.astype("<u4"), b"".join(items))


def _make_item(tokens: NDArray[Any], mask: NDArray[Any]) -> bytes:
    """The u32 sizes of both arrays, then the arrays."""
    return np.array([tokens.nbytes, mask.nbytes], "<u4").tobytes() + tokens.tobytes() + mask.tobytes()


def _finish(root: Path, manifest: Manifest) -> None:
    """So that `litdata.StreamingDataset(DIR, item_loader=TokensLoader(n))` opens all shards.

    With a loss mask it is `litdata.StreamingDataset(DIR)`.
    """
    masked = LOSS_MASK in manifest.packing.columns
    width = np.dtype(manifest.dtype).itemsize
    chunks = []
    for entry, count in LitDataWriter.list_chunks(root, manifest):
        size = entry.bytes - 4 - 4 * (count + 1)
        dim = None if masked else size // width
        chunk = {"chunk_bytes": size, "chunk_size": count, "dim": dim, "filename": entry.path}
        chunks.append(chunk)
    codes = [_TORCH_CODES[manifest.dtype], *([_INT8] if masked else [])]
    config = {
        "chunk_bytes": LitDataWriter.chunk_bytes,
        "chunk_size": None,
        "compression": None,
        "data_format": [f"no_header_tensor:{code}" for code in codes],
        "data_spec": json.dumps([1, _PAIR if masked else _LEAF]),
        "encryption": None,
        "item_loader": "PyTreeLoader" if masked else "TokensLoader",
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
