"""The `mds` format of mosaicml-streaming: files of up to 64 MiB with u32 offsets, and one `index.json`.

The layout is written directly, so no torch is needed to make it; the `mds` extra is what reads it.
"""

from __future__ import annotations

import itertools
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import publish_json
from tokenmill.datasets.formats.shard import Regroup
from tokenmill.datasets.formats.tables import COLUMN_TYPES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.formats.shard import Columns, ShardShape
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry

FILE_BYTES = 1 << 26
TOKENS = "tokens"


def mds_config(dtype: str, context_length: int | None, columns: tuple[str, ...]) -> dict[str, Any]:
    """What every file says of itself: names, encodings and sizes of the columns, sorted by name."""
    types = {TOKENS: dtype} | {name: COLUMN_TYPES[name] for name in columns}
    names = sorted(types)
    shape = "" if context_length is None else f":{context_length}"
    sizes = [
        None if context_length is None else np.dtype(types[name]).itemsize * context_length for name in names
    ]
    return {
        "column_encodings": [f"ndarray:{types[name]}{shape}" for name in names],
        "column_names": names,
        "column_sizes": sizes,
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": FILE_BYTES,
        "version": 2,
    }


class MdsWriter:
    """Gathers up to 64 MiB of samples, then writes them as one file."""

    def __init__(self, shape: ShardShape) -> None:
        """Nothing is opened before the first file is full."""
        self._shape = shape
        self._config = mds_config(shape.dtype, shape.context_length, shape.columns)
        per_token = np.dtype(shape.dtype).itemsize + sum(
            np.dtype(COLUMN_TYPES[c]).itemsize for c in shape.columns
        )
        # The offsets are 32 bits wide, so a file must end well below 4 GiB whatever the last sample brings.
        self._batches = Regroup(items=1 << 22, tokens=FILE_BYTES // per_token)
        self._entries: list[FileEntry] = []

    def write(
        self,
        ids: NDArray[Any],
        offsets: NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append samples; segments have no place in this format."""
        del segments
        for batch in self._batches.push({TOKENS: self._shape.stored(ids), **columns}, offsets):
            self._write_file(*batch)

    def _write_file(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        names = self._config["column_names"]
        count = len(offsets) - 1
        if self._shape.context_length is not None:
            parts = [np.ascontiguousarray(arrays[name]).view(np.uint8).reshape(count, -1) for name in names]
            body: Any = np.hstack(parts)
            sizes = np.full(count, body.shape[1], dtype=np.int64)
        else:
            samples = [_sample(arrays[TOKENS][a:b]) for a, b in itertools.pairwise(offsets)]
            sizes = np.array([len(sample) for sample in samples], dtype=np.int64)
            body = b"".join(samples)
        config = json.dumps(self._config, sort_keys=True).encode()
        places = 4 + 4 * (count + 1) + len(config) + np.concatenate([[0], np.cumsum(sizes)])
        file = self._shape.open(f".{len(self._entries):05d}.mds")
        try:
            file.write(struct.pack("<I", count))
            file.write(places.astype("<u4"))
            file.write(config)
            file.write(body)
            self._entries.append(self._shape.publish("mds", file))
        finally:
            file.discard()

    def close(self) -> list[FileEntry]:
        """Write the last file."""
        for batch in self._batches.flush():
            self._write_file(*batch)
        return self._entries

    def discard(self) -> None:
        """Files of a unit that did not end have no receipt, and the next try writes them again."""


def _sample(values: NDArray[Any]) -> bytes:
    """u32 size; one byte for the dimensions and the width of the shape; the shape; the values."""
    code, width = next((c, w) for c, w in ((0, "<u1"), (1, "<u2"), (2, "<u4")) if len(values) < 1 << 8 * 2**c)
    data = bytes([1 << 2 | code]) + np.array([len(values)], dtype=width).tobytes() + values.tobytes()
    return struct.pack("<I", len(data)) + data


def finish_mds(root: Path, manifest: Manifest) -> None:
    """`index.json`, so that `streaming.StreamingDataset(local=DIR)` opens all shards."""
    packing = manifest.packing
    length = packing.context_length if manifest.layout == "rows" else None
    config = mds_config(manifest.dtype, length, packing.columns)
    shards = []
    for entry in (entry for shard in manifest.shards for entry in shard.files if entry.role == "mds"):
        with (root / entry.path).open("rb") as file:
            (samples,) = struct.unpack("<I", file.read(4))
        raw = {"basename": entry.path, "bytes": entry.bytes, "hashes": {}}
        shards.append(config | {"raw_data": raw, "samples": samples, "zip_data": None})
    publish_json(root / "index.json", {"version": 2, "shards": shards})
