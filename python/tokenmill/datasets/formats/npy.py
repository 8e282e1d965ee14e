"""The `npy` format: real NPY 1.0 files that `numpy.load(..., mmap_mode="r")` maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.columns import find_column
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.formats.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.formats.files import Items, ShardShape, StoredShard

_HEADER_BYTES = 128


def _make_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return magic, version 1.0, length, and the dictionary padded so that the data starts at byte 128."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    size = (_HEADER_BYTES - 10).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + size + text.ljust(_HEADER_BYTES - 11).encode() + b"\n"


class NpyWriter(ShardWriter):
    """Write `.npy` (1-D with `.offsets.npy`, or 2-D rows) and one `.npy` per column."""

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
            file.write(bytes(_HEADER_BYTES))  # overwritten at the end, when the counts are known
        if "offsets" in self.files:
            self.files["offsets"].write(bytes(8))

    def write(self, items: Items) -> None:
        """Append documents or rows."""
        if "offsets" in self.files:
            ends = items.offsets[1:] - items.offsets[0] + self.position
            self.files["offsets"].write(ends.astype("<i8"))
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the headers."""
        length = self.shape.context_length
        for role, file in self.files.items():
            dtype = self._dtypes[role]
            count = (file.size - _HEADER_BYTES) // dtype.itemsize
            file.write_head(_make_header(dtype, (count,) if length is None else (count // length, length)))


def _read(shard: StoredShard) -> Iterator[Items]:
    def load(role: str) -> NDArray[Any]:
        flat: NDArray[Any] = np.load(shard.path(role), mmap_mode="r").reshape(-1)
        return flat

    columns = {name: load(name) for name in shard.manifest.packing.columns}
    offsets = load("offsets") if shard.manifest.layout == "documents" else None
    return shard.cut(load("tokens"), offsets, columns)


NPY = Format(name="npy", writer=NpyWriter, reader=_read, read_by="numpy.load", bytes_per_document=8)
