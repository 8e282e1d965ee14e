"""The source of every document: an Arrow file next to the shard, one row per document."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tokenmill.base.texts import to_arrow
from tokenmill.datasets.documents import Origins
from tokenmill.datasets.formats.files import ShardShape
from tokenmill.datasets.formats.tables import Appender
from tokenmill.datasets.ledger.receipt import FileEntry

SCHEMA = pa.schema(
    [("part", pa.int32()), ("row", pa.int64()), ("id", pa.large_string()), ("tokens", pa.int64())]
)
# Rows in a batch of the file. Part of the format, because batches are visible in its bytes.
BATCH_ROWS = 1 << 16


class ProvenanceWriter:
    """Write `.src` in batches of `BATCH_ROWS` documents, independent of the calls to `write`."""

    def __init__(self, shape: ShardShape) -> None:
        """Open the file under a temporary name."""
        self._shape = shape
        self._file = shape.open(".src")
        self._sink = pa.ipc.new_file(pa.PythonFile(Appender(self._file), mode="w"), SCHEMA)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, origins: Origins, lengths: NDArray[np.int64]) -> None:
        """Append documents and their numbers of tokens."""
        count = len(lengths)
        arrays = [
            to_arrow(np.full(count, origins.part, dtype=np.int32)),
            to_arrow(np.asarray(origins.rows)),
            origins.ids if origins.ids is not None else pa.nulls(count, pa.large_string()),
            to_arrow(lengths),
        ]
        self._held.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        self._rows += count
        if self._rows >= BATCH_ROWS:
            self._flush(self._rows // BATCH_ROWS * BATCH_ROWS)

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._held, schema=SCHEMA)
        for start in range(0, rows, BATCH_ROWS):
            part = table.slice(start, min(BATCH_ROWS, rows - start)).combine_chunks()
            for batch in part.to_batches():
                self._sink.write_batch(batch)
        self._held = table.slice(rows).to_batches()
        self._rows -= rows

    def close(self) -> list[FileEntry]:
        """Write the last batch and publish the file."""
        self._flush(self._rows)
        self._sink.close()
        return [self._shape.publish("provenance", self._file)]

    def discard(self) -> None:
        """Remove the file unless it was published."""
        self._file.discard()


def read_origins(path: Path) -> pa.Table:
    """Map the rows of all documents of a shard: `part`, `row`, `id` and `tokens`."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
