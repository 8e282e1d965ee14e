"""Read and write safetensors files row by row, without torch and without holding a model in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import publish_bytes
from tokenmill.errors import InputError, InputNotFoundError

INDEX = "model.safetensors.index.json"
_WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
COPY_BYTES = 8 << 20
_LONGEST_HEADER = 100 << 20


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file: dtype, shape and byte range."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def row_bytes(self) -> int:
        """Return the number of bytes of one row."""
        return (self.end - self.start) // self.shape[0] if self.shape and self.shape[0] else 0


class TensorFile:
    """A memory-mapped safetensors file."""

    def __init__(self, path: Path) -> None:
        """Read the header of `path`. Raise `InputError` if it is not a complete safetensors file."""
        self.path = path
        try:
            with path.open("rb") as file:
                self.tensors, self.metadata, self.base = _read_header(path, file)
        except FileNotFoundError as error:
            raise InputNotFoundError(f"{path}: no such file") from error
        self._data = np.memmap(path, np.uint8, "r", self.base) if self.tensors else np.empty(0, np.uint8)

    def read_rows(self, tensor: Tensor, first: int, count: int) -> NDArray[np.float32]:
        """Return rows as float32."""
        raw = np.frombuffer(self.read_raw(tensor, first, count), np.uint8)
        return to_float(raw, tensor.dtype).reshape(-1, tensor.shape[1])

    def read_raw(self, tensor: Tensor, first: int, count: int) -> bytes:
        """Return the bytes of rows."""
        start = tensor.start + first * tensor.row_bytes
        return self._data[start : start + count * tensor.row_bytes].tobytes()

    def read_chunks(self, tensor: Tensor) -> Iterator[bytes]:
        """Yield the bytes of a tensor, a few megabytes at a time."""
        for at in range(tensor.start, tensor.end, COPY_BYTES):
            yield self._data[at : min(at + COPY_BYTES, tensor.end)].tobytes()


def _read_header(path: Path, file: Any) -> tuple[dict[str, Tensor], dict[str, str], int]:
    whole = os.fstat(file.fileno()).st_size
    size = int.from_bytes(file.read(8), "little") if whole >= 8 else -1
    if not 0 < size <= min(_LONGEST_HEADER, whole - 8):
        raise InputError(f"{path} is not a safetensors file, or truncated; copy it again")
    try:
        header: dict[str, Any] = json.loads(file.read(size))
        metadata = header.pop("__metadata__", {})
        tensors = {
            name: Tensor(name, entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in header.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: its header cannot be read ({error}); copy it again") from error
    last = max((tensor.end for tensor in tensors.values()), default=0)
    if 8 + size + last != whole:
        raise InputError(
            f"{path} has {whole:,} bytes; its header requires {8 + size + last:,}; copy it again"
        )
    return tensors, metadata, 8 + size


def write_tensors(
    path: Path,
    source: TensorFile,
    shapes: Mapping[str, tuple[int, ...]],
    write: Mapping[str, Callable[[], Iterator[bytes]]],
) -> int:
    """Copy `source` with new shapes and bytes for the tensors in `write`; return the size of the data."""
    header: dict[str, Any] = {"__metadata__": source.metadata} if source.metadata else {}
    at = 0
    ordered = sorted(source.tensors.values(), key=lambda tensor: tensor.start)
    for tensor in ordered:
        shape = shapes.get(tensor.name, tensor.shape)
        size = tensor.end - tensor.start
        if tensor.name in shapes:
            size = int(np.prod(shape)) * _WIDTH[tensor.dtype]
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in ordered:
            made = write.get(tensor.name)
            for chunk in source.read_chunks(tensor) if made is None else made():
                file.write(chunk)
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
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(array.tobytes() for array in arrays.values())
    publish_bytes(path, len(text).to_bytes(8, "little") + text + data)


def to_float(raw: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    """Convert F64, F32, F16 or BF16 data to float32."""
    if dtype == "BF16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    kinds = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
    if dtype not in kinds:
        raise InputError(
            f"an embedding of type {dtype}; expected F64, F32, F16 or BF16: convert the model first"
        )
    return raw.view(kinds[dtype]).astype(np.float32)


def from_float(rows: NDArray[np.float32], dtype: str) -> bytes:
    """Convert float32 to `dtype`; bfloat16 is rounded half to even, as in torch."""
    if dtype == "BF16":
        bits = np.ascontiguousarray(rows, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return rows.astype({"F16": np.float16, "F32": np.float32, "F64": np.float64}[dtype]).tobytes()


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
