"""The `litdata` format: chunks of bare tokens behind u32 offsets, and one `index.json`.

The layout is written directly, so no torch is needed to make it; the `litdata` extra (`TokensLoader`) is
what reads it.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import publish_json
from tokenmill.datasets.formats.shard import Regroup

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.formats.shard import Columns, ShardShape
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry

CHUNK_BYTES = 1 << 26
# LitData's own numbers for torch types.
TORCH_CODES = {"uint16": 20, "int32": 16, "int64": 18}
# A tree that is one leaf, in the spelling of torch's tree specifications.
LEAF = json.dumps([1, {"type": None, "context": None, "children_spec": []}])


class LitDataWriter:
    """Gathers up to 64 MiB of items, then writes them as one chunk."""

    def __init__(self, shape: ShardShape) -> None:
        """Nothing is opened before the first chunk is full."""
        self._shape = shape
        self._width = np.dtype(shape.dtype).itemsize
        self._batches = Regroup(items=1 << 22, tokens=CHUNK_BYTES // self._width)
        self._entries: list[FileEntry] = []

    def write(
        self,
        ids: NDArray[Any],
        offsets: NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append items; only token ids have a place in this format."""
        del columns, segments
        for batch in self._batches.push({"tokens": self._shape.stored(ids)}, offsets):
            self._write_chunk(*batch)

    def _write_chunk(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        count = len(offsets) - 1
        file = self._shape.open(f".{len(self._entries):05d}.bin")
        try:
            file.write(struct.pack("<I", count))
            file.write((4 + 4 * (count + 1) + offsets * self._width).astype("<u4"))
            file.write(arrays["tokens"])
            self._entries.append(self._shape.publish("chunk", file))
        finally:
            file.discard()

    def close(self) -> list[FileEntry]:
        """Write the last chunk."""
        for batch in self._batches.flush():
            self._write_chunk(*batch)
        return self._entries

    def discard(self) -> None:
        """Chunks of a unit that did not end have no receipt, and the next try writes them again."""


def finish_litdata(root: Path, manifest: Manifest) -> None:
    """`index.json`, so that `litdata.StreamingDataset(DIR, item_loader=TokensLoader(n))` opens all shards."""
    width = np.dtype(manifest.dtype).itemsize
    chunks = []
    for entry in (entry for shard in manifest.shards for entry in shard.files if entry.role == "chunk"):
        with (root / entry.path).open("rb") as file:
            (count,) = struct.unpack("<I", file.read(4))
        size = entry.bytes - 4 - 4 * (count + 1)
        chunk = {"chunk_bytes": size, "chunk_size": count, "dim": size // width, "filename": entry.path}
        chunks.append(chunk)
    config = {
        "chunk_bytes": CHUNK_BYTES,
        "chunk_size": None,
        "compression": None,
        "data_format": [f"no_header_tensor:{TORCH_CODES[manifest.dtype]}"],
        "data_spec": LEAF,
        "encryption": None,
        "item_loader": "TokensLoader",
    }
    publish_json(root / "index.json", {"chunks": chunks, "config": config})
