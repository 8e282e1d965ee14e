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
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.datasets.documents import find_column, make_offsets
from tokenmill.datasets.formats.files import (
    HEADER,
    OFFSETS_MAGIC,
    VERSION,
    Items,
    ShardShape,
    ShardWriter,
    map_numbers,
)
from tokenmill.datasets.formats.format import Format
from tokenmill.errors import DatasetError

_NPY_HEADER = 128
_MEGATRON_MAGIC = b"MMIDIDX\0\0"
_MEGATRON_HEAD = struct.Struct("<QBQQ")
_MEGATRON_CODES = {"uint16": 8, "int32": 4, "int64": 5}
_MEGATRON_INT8 = 2
_MASK_INDEX = "loss_mask_index"


class FlatWriter(ShardWriter):
    """Write tokens and each column to a file of its own, and the index when all items are known.

    `suffixes` are those of the files by role, in the order of the receipt. `*` stands for each column.
    """

    def __init__(
        self,
        shape: ShardShape,
        suffixes: Mapping[str, str],
        write_index: Callable[[FlatWriter, NDArray[np.int64]], None],
        head: int = 0,
    ) -> None:
        super().__init__(shape)
        self._write_index = write_index
        self._lengths = [np.empty(0, np.int64)]
        for role, suffix in suffixes.items():
            if role != "offsets" or shape.context_length is None:
                for name in shape.columns if "*" in role else ("",):
                    # The head is overwritten by `write_index`, when the counts are known.
                    self.open(role.replace("*", name), suffix.replace("*", name)).write(bytes(head))

    def write(self, items: Items) -> None:
        """Append documents or rows."""
        first, last = int(items.offsets[0]), int(items.offsets[-1])
        self._lengths.append(np.diff(items.offsets))
        self.files["tokens"].write(self.shape.store(items.ids[first:last]))
        for name in self.shape.columns:
            self.files[name].write(np.ascontiguousarray(items.columns[name][first:last]))

    def finish(self) -> None:
        """Write the index."""
        self._write_index(self, make_offsets(np.concatenate(self._lengths)))


def _flat(
    name: str,
    suffixes: Mapping[str, str],
    write_index: Callable[[FlatWriter, NDArray[np.int64]], None],
    head: int = 0,
    **traits: Any,
) -> Format:
    writer = partial(FlatWriter, suffixes=suffixes, write_index=write_index, head=head)
    return Format(name=name, writer=writer, head_bytes=head, **traits)


def _index_tokenmill(writer: FlatWriter, offsets: NDArray[np.int64]) -> None:
    file = writer.files["offsets"]
    file.write(HEADER.pack(OFFSETS_MAGIC, VERSION, len(offsets) - 1))
    file.write(offsets.astype("<u8"))


TOKENMILL = _flat(
    "tokenmill",
    {"tokens": ".bin", "offsets": ".idx", "*": ".*.bin"},
    _index_tokenmill,
    read_by="tokenmill.open",
    holds_rows=False,
    map_offsets=lambda path, _: map_numbers(path, OFFSETS_MAGIC, per_item=1, extra=1),
    dtypes=("uint16", "uint32"),
    # Other columns are computed from the documents when rows are read.
    holds_columns=False,
)


def _index_npy(writer: FlatWriter, offsets: NDArray[np.int64]) -> None:
    """Write the offsets of documents, and the header of every file."""
    shape = writer.shape
    if "offsets" in writer.files:
        writer.files["offsets"].write(offsets.astype("<i8"))
    for role, file in writer.files.items():
        stored = {"tokens": shape.dtype, "offsets": "int64"}.get(role) or find_column(role).stored
        dtype = np.dtype(stored).newbyteorder("<")
        count, length = (file.size - _NPY_HEADER) // dtype.itemsize, shape.context_length
        sides = (count,) if length is None else (count // length, length)
        # Magic, version 1.0, length, and the dictionary padded so that the data starts at byte 128.
        text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {sides}, }}"
        size = (_NPY_HEADER - 10).to_bytes(2, "little")
        head = b"\x93NUMPY\x01\x00" + size + text.ljust(_NPY_HEADER - 11).encode() + b"\n"
        file.write_head(head)


# 1-D with offsets for documents, 2-D for rows.
NPY = _flat(
    "npy",
    {"tokens": ".npy", "offsets": ".offsets.npy", "*": ".*.npy"},
    _index_npy,
    head=_NPY_HEADER,
    read_by="numpy.load",
    map_offsets=lambda path, _: np.memmap(path, "<i8", "r", _NPY_HEADER),
)


def _index_datatrove(writer: FlatWriter, offsets: NDArray[np.int64]) -> None:
    """Write the u64 end of each document, and the width and the number of tokens."""
    writer.files["index"].write(offsets[1:].astype("<u8"))
    size, count = np.dtype(writer.shape.dtype).itemsize, int(offsets[-1])
    writer.files["metadata"].write(f"tokenmill|{size}\n{count}\n{count:,} T".encode())


DATATROVE = _flat(
    "datatrove",
    {"tokens": ".ds", "index": ".ds.index", "*": ".ds.loss", "metadata": ".ds.metadata"},
    _index_datatrove,
    read_by="datatrove's DatatroveFolderDataset and nanotron",
    map_offsets=lambda path, _: np.concatenate([[0], np.fromfile(path, "<i8")]),
    offsets_role="index",
    dtypes=("uint16", "uint32"),
    holds_columns=False,
)


def _index_olmo(writer: FlatWriter, offsets: NDArray[np.int64]) -> None:
    """Write the fields of dolma's own files: start, end, id, source, index in the source."""
    buffer = io.BytesIO()
    # No timestamp, so that the bytes are the same in every run.
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0, filename="") as file:
        for number, (start, end) in enumerate(pairwise(offsets.tolist())):
            file.write(f"{start},{end},{number},,{number}\n".encode())
    writer.files["documents"].write(buffer.getvalue())


def _map_olmo(path: Path, _: np.dtype[Any]) -> NDArray[np.int64]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return np.asarray([0, *(int(line[1]) for line in csv.reader(file))])
    except (OSError, EOFError, ValueError, LookupError, zlib.error) as error:
        raise DatasetError(f"{path} is damaged: {error}") from None


OLMO = _flat(
    "olmo",
    {"tokens": ".npy", "documents": ".csv.gz", "*": ".*_mask.npy"},
    _index_olmo,
    read_by="OLMo-core's NumpyFSLDataset",
    map_offsets=_map_olmo,
    offsets_role="documents",
    dtypes=("uint16", "uint32"),
    holds_columns=False,
)


def _index_megatron(writer: FlatWriter, offsets: NDArray[np.int64]) -> None:
    """Write header, i32 lengths, i64 byte offsets, i64 document starts: one document per sequence."""
    code, count = _MEGATRON_CODES[writer.shape.dtype], len(offsets) - 1
    indexes = {"index": (code, np.dtype(writer.shape.dtype).itemsize), _MASK_INDEX: (_MEGATRON_INT8, 1)}
    for role in writer.files.keys() & indexes:
        file, (kind, itemsize) = writer.files[role], indexes[role]
        file.write(_MEGATRON_MAGIC + _MEGATRON_HEAD.pack(1, kind, count, count + 1))
        file.write(np.diff(offsets).astype("<i4"))
        file.write((offsets[:-1] * itemsize).astype("<i8"))
        file.write(np.arange(count + 1, dtype="<i8"))


def _map_megatron(path: Path, dtype: np.dtype[Any]) -> NDArray[np.int64]:
    """Return the offsets of sequences in tokens. Raise `DatasetError` if the index is corrupt."""
    raw = path.read_bytes()
    at = len(_MEGATRON_MAGIC) + _MEGATRON_HEAD.size
    head = raw[:at].ljust(at, b"\0")
    _, code, sequences, documents = _MEGATRON_HEAD.unpack_from(head, len(_MEGATRON_MAGIC))
    whole = len(raw) == at + 12 * sequences + 8 * documents
    if not whole or not raw.startswith(_MEGATRON_MAGIC) or code != _MEGATRON_CODES[dtype.name]:
        raise DatasetError(f"{path} is not a Megatron index of type {dtype.name}: it is damaged")
    return make_offsets(np.frombuffer(raw, "<i4", sequences, at).astype(np.int64))


MEGATRON = _flat(
    "megatron",
    {"tokens": ".bin", "index": ".idx", "*": ".*.bin", "*_index": ".*.idx"},
    _index_megatron,
    map_offsets=_map_megatron,
    offsets_role="index",
    read_by="Megatron's IndexedDataset",
    dtypes=tuple(_MEGATRON_CODES),
    # Megatron reads vocabularies below this as u16, larger ones as i32.
    u16_vocabulary=65_500,
    # Megatron computes the columns itself from the documents.
    holds_columns=False,
)
