"""The `mds` format of mosaicml-streaming: files of up to 64 MiB with u32 offsets, and one `index.json`.

The layout is written directly, so no torch is needed to make it; the `mds` extra is what reads it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.durable import publish_json
from tokenmill.datasets.columns import find_column
from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.writer import ChunkWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.shards.items import Columns, ShardShape

_INDEX = "index.json"


def _describe(dtype: str, context_length: int | None, columns: tuple[str, ...]) -> dict[str, Any]:
    """What every file says of itself: names, encodings and sizes of the columns, sorted by name."""
    types = {MdsWriter.tokens_as: dtype} | {name: find_column(name).stored for name in columns}
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
        "size_limit": MdsWriter.chunk_bytes,
        "version": 2,
    }


class MdsWriter(ChunkWriter):
    """Gathers up to 64 MiB of samples, then writes them as one file."""

    role = "mds"
    suffix = ".mds"

    def __init__(self, shape: ShardShape) -> None:
        widths = (np.dtype(find_column(name).stored).itemsize for name in shape.columns)
        super().__init__(shape, np.dtype(shape.dtype).itemsize + sum(widths))
        self._config = _describe(shape.dtype, shape.context_length, shape.columns)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """The places of the samples, the description, the samples."""
        count = len(offsets) - 1
        if self.shape.context_length is not None:
            names = self._config["column_names"]
            parts = [np.ascontiguousarray(arrays[name]).view(np.uint8).reshape(count, -1) for name in names]
            body: Any = np.hstack(parts)
            sizes = np.full(count, body.shape[1], dtype=np.int64)
        else:
            body, sizes = _make_samples([arrays[name] for name in self._config["column_names"]], offsets)
        config = json.dumps(self._config, sort_keys=True).encode()
        places = 4 + 4 * (count + 1) + len(config) + np.concatenate([[0], np.cumsum(sizes)])
        self.write_chunk(count, places.astype("<u4"), config, body)


def _make_samples(
    columns: list[NDArray[Any]], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All samples, flat, and the size of each: the u32 sizes of its columns, then each of them.

    A value is a byte for its dimensions and the width of its shape, the shape, and the numbers themselves.
    """
    lengths = np.diff(offsets)
    codes = (lengths >= 1 << 8).astype(np.int64) + (lengths >= 1 << 16)
    shapes = np.left_shift(1, codes)
    sizes = [1 + shapes + lengths * each.itemsize for each in columns]
    total = 4 * len(columns) + np.sum(sizes, axis=0)
    place = np.cumsum(total) - total
    body = np.zeros(int(total.sum()), dtype=np.uint8)
    for size in sizes:
        _put(body, place, size, 4)
        place = place + 4
    for each, size in zip(columns, sizes, strict=True):
        body[place] = 1 << 2 | codes
        for code in range(3):
            some = codes == code
            _put(body, place[some] + 1, lengths[some], 1 << code)
        start, width = place + 1 + shapes, each.itemsize
        _core.copy_segments(
            np.ascontiguousarray(each).view(np.uint8), offsets[:-1] * width, start, lengths * width, body
        )
        place = place + size
    return body, total


def _put(body: NDArray[np.uint8], places: NDArray[np.int64], numbers: NDArray[np.int64], width: int) -> None:
    """Write a number of so many bytes, the lowest first, at each place."""
    for at in range(width):
        body[places + at] = (numbers >> 8 * at) & 0xFF


def _finish(root: Path, manifest: Manifest) -> None:
    """So that `streaming.StreamingDataset(local=DIR)` opens all shards."""
    packing = manifest.packing
    length = packing.context_length if manifest.layout == "rows" else None
    config = _describe(manifest.dtype, length, packing.columns)
    shards = []
    for entry, samples in MdsWriter.list_chunks(root, manifest):
        raw = {"basename": entry.path, "bytes": entry.bytes, "hashes": {}}
        shards.append(config | {"raw_data": raw, "samples": samples, "zip_data": None})
    publish_json(root / _INDEX, {"version": 2, "shards": shards})


FORMAT = Format(
    name="mds",
    writer=MdsWriter,
    read_by="streaming.StreamingDataset",
    bytes_per_document=4 + 4 + 1 + 2,  # place, size, code and, for most documents, two bytes of shape
    beside=(_INDEX,),
    finish=_finish,
)
