"""The formats of bare tokens with an index: `tokenmill`, `npy`, `datatrove`, `olmo` and `megatron`.

`npy` files are real NPY 1.0 files that `numpy.load(..., mmap_mode="r")` maps. `datatrove` files are those of
nanotron, with `.ds.loss` for a loss mask. OLMo-core maps raw tokens, so the `.npy` files of `olmo` have no
header. It reads documents from a `.csv.gz`, and one byte per token from a file of label masks. The loss mask
of `megatron` is a second indexed dataset, `<shard>.loss_mask`, with the same sequences.
"""

from __future__ import annotations

import csv
import gzip
import io
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.durable import DurableFile
from tokenmill.datasets.documents import IGNORED, LOSS_MASK, find_column, make_offsets
from tokenmill.datasets.formats.files import (
    HEADER,
    OFFSETS_MAGIC,
    Items,
    ShardShape,
    ShardWriter,
    StoredShard,
    make_header,
    map_offsets,
)
from tokenmill.datasets.formats.format import Format
from tokenmill.errors import DatasetError

_NPY_HEADER = 128
_MEGATRON_MAGIC = b"MMIDIDX\0\0"
_MEGATRON_HEAD = struct.Struct("<QBQQ")
_MEGATRON_CODES = {"uint16": 8, "int32": 4, "int64": 5}
_MEGATRON_INT8 = 2
_MASK_INDEX = "loss_mask_index"


class NativeWriter(ShardWriter):
    """Write `.bin` and `.idx`, and `.loss_mask.bin` for conversations."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".bin")
        self._index = self.open("offsets", ".idx")
        for name in shape.columns:
            self.open(name, f".{name}.bin")
        # The header counts the documents; the first offset is 0.
        self._index.write(bytes(HEADER.size + 8))
        self._count = 0

    def write(self, items: Items) -> None:
        """Append documents."""
        self._index.write(_core.stored_ends(items.offsets, self.position))
        self._count += len(items.offsets) - 1
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the index's header."""
        self._index.write_head(make_header(OFFSETS_MAGIC, self._count))


def _read_tokenmill(shard: StoredShard) -> Iterator[Items]:
    return shard.cut(shard.map_tokens(), map_offsets(shard.path("offsets")), shard.map_columns())


TOKENMILL = Format(
    name="tokenmill",
    writer=NativeWriter,
    reader=_read_tokenmill,
    read_by="tokenmill.open",
    holds_rows=False,
    map_offsets=lambda path, _: map_offsets(path),
    dtypes=("uint16", "uint32"),
    # Other columns are computed from the documents when rows are read.
    holds_columns=False,
    bytes_per_document=8,
)


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
            file.write(bytes(_NPY_HEADER))  # overwritten at the end, when the counts are known
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
            count = (file.size - _NPY_HEADER) // dtype.itemsize
            shape = (count,) if length is None else (count // length, length)
            # Magic, version 1.0, length, and the dictionary padded so that the data starts at byte 128.
            text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
            size = (_NPY_HEADER - 10).to_bytes(2, "little")
            head = b"\x93NUMPY\x01\x00" + size + text.ljust(_NPY_HEADER - 11).encode() + b"\n"
            file.write_head(head)


def _read_npy(shard: StoredShard) -> Iterator[Items]:
    def load(role: str) -> NDArray[Any]:
        flat: NDArray[Any] = np.load(shard.path(role), mmap_mode="r").reshape(-1)
        return flat

    columns = {name: load(name) for name in shard.manifest.packing.columns}
    offsets = load("offsets") if shard.manifest.layout == "documents" else None
    return shard.cut(load("tokens"), offsets, columns)


NPY = Format(name="npy", writer=NpyWriter, reader=_read_npy, read_by="numpy.load", bytes_per_document=8)


class DatatroveWriter(ShardWriter):
    """Write tokens, the u64 end of each document, and datatrove's description of the file."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".ds")
        self._ends = self.open("index", ".ds.index")
        if LOSS_MASK in shape.columns:
            self.open(LOSS_MASK, ".ds.loss")
        self._metadata = self.open("metadata", ".ds.metadata")

    def write(self, items: Items) -> None:
        """Append documents."""
        self._ends.write(_core.stored_ends(items.offsets, self.position))
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the width and the number of tokens."""
        size, count, short = np.dtype(self.shape.dtype).itemsize, self.position, f"{self.position} T"
        for power, name in ((3, "k"), (6, "M"), (9, "G"), (12, "T")):
            if count >= 10**power:
                short = f"{count / 10**power:.3g} {name}T"
        self._metadata.write(f"tokenmill|{size}\n{count}\n{short}".encode())


def _read_datatrove(shard: StoredShard) -> Iterator[Items]:
    tokens, ends = shard.map_tokens(), shard.map("index", "uint64")
    if len(ends) and int(ends.max()) > len(tokens):
        raise DatasetError(
            f"shard {shard.entry.name}: its index ends after its {len(tokens)} tokens: it is damaged"
        )
    return shard.cut(tokens, np.concatenate([[0], ends]), shard.map_columns())


DATATROVE = Format(
    name="datatrove",
    writer=DatatroveWriter,
    reader=_read_datatrove,
    read_by="datatrove's DatatroveFolderDataset and nanotron",
    dtypes=("uint16", "uint32"),
    holds_columns=False,
    bytes_per_document=8,
)


class OlmoWriter(ShardWriter):
    """Write `.npy`, `.csv.gz`, and a mask for each column."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".npy")
        self.open("documents", ".csv.gz")
        for name in shape.columns:
            self.open(name, f".{name}_mask.npy")
        # No timestamp, so that the bytes are the same in every run.
        self._buffer = io.BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", compresslevel=6, mtime=0, filename="")
        self._count = 0

    def write(self, items: Items) -> None:
        """Append documents or rows."""
        ends = (items.offsets - items.offsets[0] + self.position).tolist()
        for start, end in pairwise(ends):
            # Fields of dolma's own files: start, end, id, source, index in the source.
            self._gzip.write(f"{start},{end},{self._count},,{self._count}\n".encode())
            self._count += 1
        # 1 for trained tokens, 0 for a label of -100 or a mask of 0.
        columns = {name: items.columns[name] for name in self.shape.columns}
        masks = {name: each >= 0 if each.dtype.itemsize > 1 else each != 0 for name, each in columns.items()}
        self.write_tokens(replace(items, columns=masks))

    def finish(self) -> None:
        """End the list of documents."""
        self._gzip.close()
        self.files["documents"].write(self._buffer.getvalue())


def _read_olmo(shard: StoredShard) -> Iterator[Items]:
    tokens, columns = shard.map_tokens(), {}
    for name in shard.manifest.packing.columns:
        # Only masks are stored. Labels are the ids where the mask is set.
        mask, stored = shard.map(name, "uint8"), find_column(name).stored
        values = mask if np.dtype(stored).itemsize == 1 else np.where(mask, tokens, IGNORED)
        columns[name] = values.astype(stored)
    if shard.manifest.layout != "documents":
        return shard.cut(tokens, None, columns)
    with gzip.open(shard.path("documents"), "rt", encoding="utf-8", newline="") as file:
        ends = [int(line[1]) for line in csv.reader(file)]
    return shard.cut(tokens, np.asarray([0, *ends]), columns)


OLMO = Format(
    name="olmo",
    writer=OlmoWriter,
    reader=_read_olmo,
    read_by="OLMo-core's NumpyFSLDataset",
    dtypes=("uint16", "uint32"),
    holds_masks_only=True,
)


class MegatronWriter(ShardWriter):
    """Write one sequence and one document per item."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".bin")
        self.open("index", ".idx")
        if LOSS_MASK in shape.columns:
            self.open(LOSS_MASK, f".{LOSS_MASK}.bin")
            self.open(_MASK_INDEX, f".{LOSS_MASK}.idx")
        self._lengths: list[NDArray[np.int32]] = []

    def write(self, items: Items) -> None:
        """Append sequences. `finish` writes the index from their lengths."""
        self._lengths.append(np.diff(items.offsets).astype("<i4"))
        self.write_tokens(items)

    def finish(self) -> None:
        """Write the index of each file."""
        dtype = self.shape.dtype
        self._write_index(self.files["index"], _MEGATRON_CODES[dtype], np.dtype(dtype).itemsize)
        if _MASK_INDEX in self.files:
            self._write_index(self.files[_MASK_INDEX], _MEGATRON_INT8, 1)

    def _write_index(self, file: DurableFile, code: int, itemsize: int) -> None:
        """Write header, i32 lengths, i64 byte offsets, i64 document starts."""
        lengths = np.concatenate([np.empty(0, "<i4"), *self._lengths])
        file.write(_MEGATRON_MAGIC + _MEGATRON_HEAD.pack(1, code, len(lengths), len(lengths) + 1))
        file.write(lengths)
        file.write((make_offsets(lengths)[:-1] * itemsize).astype("<i8"))
        file.write(np.arange(len(lengths) + 1, dtype="<i8"))


def _map_megatron(path: Path, dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Return the offsets of sequences in tokens. Raise `DatasetError` if the index is corrupt."""
    raw = path.read_bytes()
    at = len(_MEGATRON_MAGIC) + _MEGATRON_HEAD.size
    if not raw.startswith(_MEGATRON_MAGIC) or len(raw) < at:
        raise DatasetError(f"{path} does not start like a Megatron index: it is damaged")
    _, code, sequences, documents = _MEGATRON_HEAD.unpack_from(raw, len(_MEGATRON_MAGIC))
    if code != _MEGATRON_CODES[dtype.name] or len(raw) != at + 12 * sequences + 8 * documents:
        raise DatasetError(f"{path} has {len(raw)} bytes and type code {code}, which do not match its header")
    offsets = make_offsets(np.frombuffer(raw, "<i4", sequences, at).astype(np.int64))
    pointers = np.frombuffer(raw, "<i8", sequences, at + 4 * sequences)
    if not np.array_equal(pointers, offsets[:-1] * dtype.itemsize):
        raise DatasetError(f"{path}: its pointers are not the running sum of its lengths: it is damaged")
    return offsets


def _read_megatron(shard: StoredShard) -> Iterator[Items]:
    offsets = _map_megatron(shard.path("index"), np.dtype(shard.manifest.dtype))
    return shard.cut(shard.map_tokens(), offsets, shard.map_columns())


MEGATRON = Format(
    name="megatron",
    writer=MegatronWriter,
    reader=_read_megatron,
    map_offsets=_map_megatron,
    offsets_role="index",
    read_by="Megatron's IndexedDataset",
    prefixes=True,
    dtypes=tuple(_MEGATRON_CODES),
    # Megatron reads vocabularies below this as u16, larger ones as i32.
    u16_vocabulary=65_500,
    # Megatron computes the columns itself from the documents.
    holds_columns=False,
    bytes_per_document=20,
)
