"""The `olmo` format: bare tokens called `.npy`, documents' ends in `.csv.gz`, and masks of labels.

OLMo-core maps the tokens by itself, so the files have no NPY header; it asks the `.csv.gz` for the documents
of a file that it streams, and reads one byte for each token from a file of label masks.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.shards.flat import cut_items, make_row_offsets, map_file
from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.writer import ShardWriter
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry
    from tokenmill.datasets.shards.items import Items, ShardShape

# Fields of dolma's own files: start, end, id, source, place in it.
_LINE = "{start},{end},{number},,{number}\n"


class OlmoWriter(ShardWriter):
    """Writes `.npy`, `.csv.gz`, and for each column where it counts."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self._tokens = self.open("tokens", ".npy")
        self._documents = _Gzip(self.open("documents", ".csv.gz"))
        for name in shape.columns:
            self.open(name, f".{name}_mask.npy")
        self._position = 0
        self._count = 0

    def write(self, items: Items) -> None:
        """Append documents or rows."""
        offsets = items.offsets
        self._tokens.write(self.shape.store(items.ids[offsets[0] : offsets[-1]]))
        ends = (offsets - offsets[0] + self._position).tolist()
        for start, end in itertools.pairwise(ends):
            self._documents.write(_LINE.format(start=start, end=end, number=self._count))
            self._count += 1
        for name in self.shape.columns:
            self.files[name].write(np.ascontiguousarray(_find_counting(items.columns[name]), dtype="u1"))
        self._position = ends[-1]

    def close(self) -> list[FileEntry]:
        """End the list of documents and publish."""
        self._documents.finish()
        return super().close()


def _find_counting(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a label counts, or a mask is set: a label of -100, or a 0 in a mask, does not."""
    return values >= 0 if values.dtype.itemsize > 1 else values != 0


class _Gzip:
    """Lines into a gzip member without a time stamp, some at a time."""

    def __init__(self, file: DurableFile) -> None:
        self._file = file
        self._buffer = io.BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", compresslevel=6, mtime=0, filename="")

    def write(self, line: str) -> None:
        self._gzip.write(line.encode())
        if self._buffer.tell() > 1 << 20:
            self._drain()

    def _drain(self) -> None:
        self._file.write(self._buffer.getvalue())
        self._buffer.seek(0)
        self._buffer.truncate()

    def finish(self) -> None:
        self._gzip.close()
        self._drain()


def _read(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    if manifest.packing.columns:
        raise DatasetError(
            f"{root}: its files only say where {' and '.join(manifest.packing.columns)} count, not values; "
            "prepare the columns again in another format: tokenmill prepare INPUTS --format parquet"
        )
    tokens = map_file(root, shard.file("tokens"), manifest.dtype)
    if manifest.layout != "documents":
        return cut_items(shard, tokens, make_row_offsets(tokens, manifest))
    with gzip.open(root / shard.file("documents").path, "rt", encoding="utf-8", newline="") as file:
        ends = [int(line[1]) for line in csv.reader(file)]
    return cut_items(shard, tokens, np.asarray([0, *ends], dtype=np.int64))


FORMAT = Format(
    name="olmo",
    writer=OlmoWriter,
    reader=_read,
    read_by="OLMo-core's NumpyFSLDataset",
    dtypes=("uint16", "uint32"),
    holds_masks_only=True,
)
