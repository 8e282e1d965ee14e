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

from tokenmill.datasets.columns import IGNORED, find_column
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.formats.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.formats.files import Items, ShardShape, StoredShard

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

    def finish(self) -> None:
        """End the list of documents."""
        self._gzip.close()
        self._drain()


def _find_counting(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 1 where a label counts or a mask is set: a label of -100, or a 0 in a mask, does not."""
    return (values >= 0 if values.dtype.itemsize > 1 else values != 0).astype(np.uint8)


def _read(shard: StoredShard) -> Iterator[Items]:
    tokens, columns = shard.map_tokens(), {}
    for name in shard.manifest.packing.columns:
        # Only masks are stored; labels are the ids where the mask is set.
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
    reader=_read,
    read_by="OLMo-core's NumpyFSLDataset",
    dtypes=("uint16", "uint32"),
    holds_masks_only=True,
)
