"""Read and write safetensors files row by row, without torch and without holding a model in memory.

The safetensors library has no bfloat16 for NumPy, and writes only tensors that are in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import publish_bytes
from tokenmill.errors import InputError, InputNotFoundError

INDEX = "model.safetensors.index.json"
_FLOATS: dict[str, Any] = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
_LONGEST_HEADER = 100 << 20


class Tensor(NamedTuple):
    """One tensor of a memory-mapped file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]

    def read_raw(self, first: int, count: int) -> bytes:
        """Return the bytes of rows."""
        width = len(self.data) // self.shape[0]
        return self.data[first * width : (first + count) * width].tobytes()

    def read_rows(self, first: int, count: int) -> NDArray[np.float32]:
        """Return rows as float32. Raise `InputError` if they are not F64, F32, F16 or BF16."""
        raw = self.read_raw(first, count)
        if self.dtype == "BF16":
            rows = (np.frombuffer(raw, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        elif self.dtype in _FLOATS:
            rows = np.frombuffer(raw, _FLOATS[self.dtype]).astype(np.float32)
        else:
            raise InputError(
                f"an embedding of type {self.dtype}; expected F64, F32, F16 or BF16: convert the model first"
            )
        return rows.reshape(-1, self.shape[1])

    def pack_row(self, row: NDArray[np.float32]) -> bytes:
        """Return the bytes of a row; bfloat16 is rounded half to even, as in torch."""
        if self.dtype == "BF16":
            bits = np.ascontiguousarray(row, np.float32).view(np.uint32)
            return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
        return row.astype(_FLOATS[self.dtype]).tobytes()


class TensorFile:
    """A memory-mapped safetensors file; its tensors are in the order of their data."""

    def __init__(self, path: Path) -> None:
        """Read the header of `path`. Raise `InputError` if it is not a complete safetensors file."""
        try:
            with path.open("rb") as file:
                whole = os.fstat(file.fileno()).st_size
                size = int.from_bytes(file.read(8), "little")
                if whole < 8 or not 0 < size <= min(_LONGEST_HEADER, whole - 8):
                    raise InputError(f"{path} is not a safetensors file, or truncated; copy it again")
                header: dict[str, Any] = json.loads(file.read(size))
            metadata = header.pop("__metadata__", {})
            ranges = {
                name: (entry["data_offsets"][0], entry["data_offsets"][1]) for name, entry in header.items()
            }
            self.size = max((end for _, end in ranges.values()), default=0)
            kinds = {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}
        except FileNotFoundError as error:
            raise InputNotFoundError(f"{path}: no such file") from error
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise InputError(f"{path}: its header cannot be read ({error}); copy it again") from error
        if 8 + size + self.size != whole:
            raise InputError(
                f"{path} has {whole:,} bytes; its header requires {8 + size + self.size:,}; copy it again"
            )
        data = np.memmap(path, np.uint8, "r", 8 + size) if ranges else np.empty(0, np.uint8)
        self.path, self.metadata = path, metadata
        self.tensors = {
            name: Tensor(name, *kinds[name], data[slice(*ranges[name])])
            for name in sorted(ranges, key=lambda name: ranges[name][0])
        }


def write_tensors(path: Path, source: TensorFile, rows: Mapping[str, tuple[int, Iterable[bytes]]]) -> int:
    """Copy `source` with other rows, given by number and bytes, for some tensors; return the size of data."""
    header: dict[str, Any] = {"__metadata__": source.metadata} if source.metadata else {}
    at = 0
    for name, tensor in source.tensors.items():
        shape, size = tensor.shape, len(tensor.data)
        if name in rows:
            shape, size = (rows[name][0], *shape[1:]), size // shape[0] * rows[name][0]
        header[name] = {"dtype": tensor.dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    with path.open("wb") as file:
        file.write(_pack_header(json.dumps(header, separators=(",", ":"))))
        for name, tensor in source.tensors.items():
            if name in rows:
                file.writelines(rows[name][1])
            else:
                file.write(tensor.data.data)
        file.flush()
        os.fsync(file.fileno())
    return at


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write int64 and bool arrays as a safetensors file; it is complete or absent."""
    header, at = {}, 0
    for name, array in arrays.items():
        dtype = "BOOL" if array.dtype == bool else "I64"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    data = b"".join(array.tobytes() for array in arrays.values())
    publish_bytes(path, _pack_header(json.dumps(header)) + data)


def _pack_header(text: str) -> bytes:
    data = text.encode()
    data += b" " * (-len(data) % 8)
    return len(data).to_bytes(8, "little") + data


def find_files(folder: Path) -> tuple[list[Path], dict[str, Any] | None]:
    """Return the safetensors files of a model, and its index if it is sharded."""
    if (folder / INDEX).is_file():
        try:
            index: dict[str, Any] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            return [folder / name for name in sorted(set(index["weight_map"].values()))], index
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{folder / INDEX} cannot be read ({error}); copy it again") from error
    found = sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        raise InputNotFoundError(
            f"{folder} has {len(found)} safetensors files and no {INDEX}; expected one file, or an index"
        )
    return found, None
