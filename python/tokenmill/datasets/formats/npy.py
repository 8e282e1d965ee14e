"""The `npy` format: real NPY 1.0 files that `numpy.load(..., mmap_mode="r")` maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.columns import find_column
from tokenmill.datasets.shards.flat import cut_items, make_row_offsets
from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry
    from tokenmill.datasets.shards.items import Items, ShardShape

_HEADER_BYTES = 128


def _make_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Magic, version 1.0, length, and the dictionary padded so that the data starts at byte 128 always."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    size = (_HEADER_BYTES - 10).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + size + text.ljust(_HEADER_BYTES - 11).encode() + b"\n"


class NpyWriter(ShardWriter):
    """Writes `.npy` (1-D with `.offsets.npy`, or 2-D rows) and one `.npy` per column."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self._dtypes = {"tokens": np.dtype(shape.dtype).newbyteorder("<"), "offsets": np.dtype("<i8")}
        self._dtypes |= {name: np.dtype(find_column(name).stored) for name in shape.columns}
        self.open("tokens", ".npy")
        if shape.context_length is None:
            self.open("offsets", ".offsets.npy")
        for name in shape.columns:
            self.open(name, f".{name}.npy")
        for file in self.files.values():
            file.write(bytes(_HEADER_BYTES))  # written at the end, when the counts are known
        self._position = 0
        self._write("offsets", np.zeros(1))

    def _write(self, role: str, values: NDArray[Any]) -> None:
        if role in self.files:
            self.files[role].write(np.ascontiguousarray(values, dtype=self._dtypes[role]))

    def write(self, items: Items) -> None:
        """Append documents or rows."""
        ids, offsets = items.ids, items.offsets
        self._write("tokens", ids[offsets[0] : offsets[-1]])
        self._write("offsets", offsets[1:] - offsets[0] + self._position)
        for name, values in items.columns.items():
            self._write(name, values)
        self._position += int(offsets[-1] - offsets[0])

    def close(self) -> list[FileEntry]:
        """Write the headers and publish."""
        length = self.shape.context_length
        for role, file in self.files.items():
            dtype = self._dtypes[role]
            count = (file.size - _HEADER_BYTES) // dtype.itemsize
            file.write_head(_make_header(dtype, (count,) if length is None else (count // length, length)))
        return super().close()


def _read(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    tokens = _load(root, shard, "tokens")
    columns = {name: _load(root, shard, name) for name in manifest.packing.columns}
    if manifest.layout == "documents":
        return cut_items(shard, tokens, _load(root, shard, "offsets").astype(np.int64), columns)
    return cut_items(shard, tokens, make_row_offsets(tokens, manifest), columns)


def _load(root: Path, shard: ShardEntry, role: str) -> NDArray[Any]:
    flat: NDArray[Any] = np.load(root / shard.file(role).path, mmap_mode="r").reshape(-1)
    return flat


FORMAT = Format(name="npy", writer=NpyWriter, reader=_read, read_by="numpy.load", bytes_per_document=8)
