"""The `npy` format: real NPY 1.0 files that `numpy.load(..., mmap_mode="r")` maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.formats.shard import Columns, ShardShape
    from tokenmill.datasets.ledger.receipt import FileEntry

HEADER_BYTES = 128


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Magic, version 1.0, length, and the dictionary padded so that the data starts at byte 128 always."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


class NpyWriter:
    """Writes `.npy` (1-D with `.offsets.npy`, or 2-D rows) and one `.npy` per column."""

    def __init__(self, shape: ShardShape) -> None:
        """Open the files; their headers are written at the end, when the counts are known."""
        self._shape = shape
        self._dtypes = {"tokens": np.dtype(shape.dtype).newbyteorder("<")}
        self._files: dict[str, DurableFile] = {"tokens": shape.open(".npy")}
        if shape.context_length is None:
            self._files["offsets"] = shape.open(".offsets.npy")
        for name in shape.columns:
            self._files[name] = shape.open(f".{name}.npy")
        for file in self._files.values():
            file.write(b"\0" * HEADER_BYTES)
        self._position = 0
        self._write("offsets", np.zeros(1, dtype="<i8"))

    def _write(self, role: str, values: NDArray[Any]) -> None:
        if role in self._files:
            self._dtypes[role] = values.dtype
            self._files[role].write(np.ascontiguousarray(values))

    def write(
        self,
        ids: NDArray[Any],
        offsets: NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append documents or rows; segments have no place in this format."""
        del segments
        self._write("tokens", self._shape.stored(ids[offsets[0] : offsets[-1]]))
        self._write("offsets", (offsets[1:] - offsets[0] + self._position).astype("<i8"))
        for name, values in columns.items():
            self._write(name, values)
        self._position += int(offsets[-1] - offsets[0])

    def close(self) -> list[FileEntry]:
        """Write the headers and publish."""
        entries = []
        for role, file in self._files.items():
            dtype = self._dtypes.get(role, np.dtype("<i4"))
            count = (file.size - HEADER_BYTES) // dtype.itemsize
            length = self._shape.context_length
            shape = (count,) if length is None else (count // length, length)
            file.write_head(npy_header(dtype, shape))
            entries.append(self._shape.publish(role, file))
        return entries

    def discard(self) -> None:
        """Remove what was not published."""
        for file in self._files.values():
            file.discard()
