"""The `olmo` format: bare tokens called `.npy`, documents' ends in `.csv.gz`, and masks of labels.

OLMo-core maps the tokens by itself, so the files have no NPY header. It takes the documents of a file that it
streams from the `.csv.gz`, and reads one byte for each token from a file of label masks.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.formats.files import cut_items, make_row_offsets, map_file
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.formats.writer import ShardWriter
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.formats.files import Items, ShardShape
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry

_BUFFER_BYTES = 1 << 20


class OlmoWriter(ShardWriter):
    """Write `.npy`, `.csv.gz`, and a mask for each column."""

    def __init__(self, shape: ShardShape) -> None:
        super().__init__(shape)
        self.open("tokens", ".npy")
        self.open("documents", ".csv.gz")
        for name in shape.columns:
            self.open(name, f".{name}_mask.npy")
        # No time stamp, so that the bytes are the same in every run.
        self._buffer = io.BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._buffer, mode="wb", compresslevel=6, mtime=0, filename="")
        self._count = 0

    def write(self, items: Items) -> None:
        """Append documents or rows."""
        ends = (items.offsets - items.offsets[0] + self.position).tolist()
        for start, end in itertools.pairwise(ends):
            # Fields of dolma's own files: start, end, id, source, place in it.
            self._gzip.write(f"{start},{end},{self._count},,{self._count}\n".encode())
            self._count += 1
            if self._buffer.tell() > _BUFFER_BYTES:
                self._drain()
        masks = {name: _find_counting(items.columns[name]) for name in self.shape.columns}
        self.write_tokens(replace(items, columns=masks))

    def _drain(self) -> None:
        self.files["documents"].write(self._buffer.getvalue())
        self._buffer.seek(0)
        self._buffer.truncate()

    def close(self) -> list[FileEntry]:
        """End the list of documents and publish."""
        self._gzip.close()
        self._drain()
        return super().close()


def _find_counting(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 1 where a label counts or a mask is set: a label of -100, or a 0 in a mask, does not."""
    return (values >= 0 if values.dtype.itemsize > 1 else values != 0).astype(np.uint8)


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


OLMO = Format(
    name="olmo",
    writer=OlmoWriter,
    reader=_read,
    read_by="OLMo-core's NumpyFSLDataset",
    dtypes=("uint16", "uint32"),
    holds_masks_only=True,
)
