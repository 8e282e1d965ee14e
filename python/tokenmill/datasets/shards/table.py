"""Shards that are Arrow tables: one column of token lists, and the other columns beside it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.base.arrays import to_arrow
from tokenmill.datasets.columns import find_column
from tokenmill.datasets.shards.items import Items
from tokenmill.datasets.shards.writer import BatchWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.base.durable import DurableFile
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import ShardEntry
    from tokenmill.datasets.shards.items import Columns, ShardShape

INPUT_IDS = "input_ids"
ROLE = "table"


def make_table_schema(dtype: str, context_length: int | None, columns: tuple[str, ...]) -> pa.Schema:
    """`input_ids` and the columns, as lists of fixed size for rows and of any size for documents."""
    size = -1 if context_length is None else context_length
    types = {INPUT_IDS: dtype} | {name: find_column(name).stored for name in columns}
    return pa.schema([(name, pa.list_(pa.type_for_alias(kind), size)) for name, kind in types.items()])


class TableWriter(BatchWriter):
    """Hands each batch to a sink of Arrow's, such as `pa.ipc.new_stream` opens."""

    tokens_as = INPUT_IDS

    def __init__(self, shape: ShardShape, suffix: str, open_sink: Callable[[Any, pa.Schema], Any]) -> None:
        super().__init__(shape)
        self._schema = make_table_schema(shape.dtype, shape.context_length, shape.columns)
        self._appender = Appender(self.open(ROLE, suffix))
        self._sink = open_sink(pa.PythonFile(self._appender, mode="w"), self._schema)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """One record batch, or one row group."""
        made = []
        for field in self._schema:
            values = to_arrow(arrays[field.name])
            if self.shape.context_length is None:
                places = to_arrow(offsets.astype(np.int32))
                made.append(pa.ListArray.from_arrays(places, values, type=field.type))
            else:
                made.append(pa.FixedSizeListArray.from_arrays(values, type=field.type))
        self._sink.write_batch(pa.RecordBatch.from_arrays(made, schema=self._schema))

    def finish(self) -> None:
        """The end of the stream, or the footer."""
        self._sink.close()

    def discard(self) -> None:
        """Remove the file; a sink of Parquet's writes its footer even when it is thrown away."""
        self._appender.swallows = True
        super().discard()


def read_table(
    open_batches: Callable[[Path], Iterable[pa.RecordBatch]],
    root: Path,
    manifest: Manifest,
    shard: ShardEntry,
) -> Iterator[Items]:
    """The items of a table, a record batch at a time."""
    length = manifest.packing.context_length if manifest.layout == "rows" else None
    for batch in open_batches(root / shard.file(ROLE).path):
        lists = batch.column(INPUT_IDS)
        if length is not None:
            offsets = np.arange(len(lists) + 1, dtype=np.int64) * length
        else:
            offsets = np.asarray(lists.offsets).astype(np.int64)
        flat = {name: np.asarray(batch.column(name).flatten()) for name in batch.schema.names}
        yield Items(flat.pop(INPUT_IDS), offsets - offsets[0], flat)


class Appender(io.RawIOBase):
    """What Arrow writes to: a durable file, from front to back, since its bytes are hashed as they come."""

    def __init__(self, file: DurableFile) -> None:
        super().__init__()
        self._file = file
        self.swallows = False
        """Whether the file is gone, and what still comes goes nowhere."""

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes."""
        return memoryview(data).nbytes if self.swallows else self._file.write(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._file.size
