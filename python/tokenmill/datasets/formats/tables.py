"""The `arrow` and `parquet` formats: one column of token lists, and the other columns beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.base.arrays import arrow_of
from tokenmill.base.durable import digest, publish_json
from tokenmill.datasets.formats.shard import Regroup

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.formats.shard import Columns, ShardShape
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry

INPUT_IDS = "input_ids"
COLUMN_TYPES = {
    "attention_mask": "int8",
    "labels": "int32",
    "position_ids": "int32",
    "document_ids": "int32",
}


def table_schema(dtype: str, context_length: int | None, columns: tuple[str, ...]) -> pa.Schema:
    """`input_ids` and the columns, as lists of fixed size for rows and of any size for documents."""
    size = -1 if context_length is None else context_length
    types = {INPUT_IDS: dtype} | {name: COLUMN_TYPES[name] for name in columns}
    return pa.schema([(name, pa.list_(pa.type_for_alias(kind), size)) for name, kind in types.items()])


class TableWriter:
    """Regroups items into batches that only the items decide, and hands each to the file format."""

    suffix = ""

    def __init__(self, shape: ShardShape) -> None:
        """Open the file and write the schema."""
        self._shape = shape
        self._schema = table_schema(shape.dtype, shape.context_length, shape.columns)
        self._batches = Regroup()
        self._file = shape.open(self.suffix)
        self._sink = self._open(pa.PythonFile(self._file_like(), mode="w"))

    def _file_like(self) -> Appender:
        return Appender(self._file)

    def _open(self, sink: pa.NativeFile) -> Any:
        return pa.ipc.new_stream(sink, self._schema)

    def _put(self, batch: pa.RecordBatch) -> None:
        self._sink.write_batch(batch)

    def write(
        self,
        ids: NDArray[Any],
        offsets: NDArray[np.int64],
        columns: Columns,
        segments: NDArray[np.uint64] | None,
    ) -> None:
        """Append items; segments have no place in a table."""
        del segments
        arrays = {INPUT_IDS: self._shape.stored(ids), **columns}
        for batch in self._batches.push(arrays, offsets):
            self._put(self._record_batch(*batch))

    def _record_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> pa.RecordBatch:
        made = []
        for field in self._schema:
            values = arrow_of(arrays[field.name])
            if self._shape.context_length is None:
                made.append(
                    pa.ListArray.from_arrays(arrow_of(offsets.astype(np.int32)), values, type=field.type)
                )
            else:
                made.append(pa.FixedSizeListArray.from_arrays(values, type=field.type))
        return pa.RecordBatch.from_arrays(made, schema=self._schema)

    def close(self) -> list[FileEntry]:
        """Write the last batch and publish."""
        for batch in self._batches.flush():
            self._put(self._record_batch(*batch))
        self._sink.close()
        return [self._shape.publish("table", self._file)]

    def discard(self) -> None:
        """Remove what was not published."""
        self._file.discard()


class ArrowWriter(TableWriter):
    """Arrow IPC stream, as `datasets` writes it."""

    suffix = ".arrow"


class ParquetWriter(TableWriter):
    """Parquet with one row group per batch; zstd, because dictionary pages do nothing for token ids."""

    suffix = ".parquet"

    def _open(self, sink: pa.NativeFile) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(sink, self._schema, compression="zstd", use_dictionary=False, version="2.6")


class Appender:
    """The few methods of a file object that Arrow calls, over a durable file."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> int:
        """Append bytes."""
        written: int = self._file.write(data)
        return written

    def tell(self) -> int:
        """Bytes so far."""
        size: int = self._file.size
        return size

    def flush(self) -> None:
        """Publishing flushes."""

    def close(self) -> None:
        """Publishing closes."""

    def writable(self) -> bool:
        """Always."""
        return True

    def readable(self) -> bool:
        """Never."""
        return False

    def seekable(self) -> bool:
        """Never: bytes are hashed as they come."""
        return False


def finish_arrow(root: Any, manifest: Manifest) -> None:
    """`state.json` and `dataset_info.json`, so that `datasets.load_from_disk(DIR)` opens the shards."""
    packing = manifest.packing
    length = packing.context_length if manifest.layout == "rows" else None
    features = {
        field.name: {
            "feature": {"dtype": str(field.type.value_type), "_type": "Value"},
            "length": -1 if length is None else length,
            "_type": "Sequence",
        }
        for field in table_schema(manifest.dtype, length, packing.columns)
    }
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    publish_json(root / "dataset_info.json", info)
    state: dict[str, Any] = {
        "_data_files": [{"filename": shard.file("table").path} for shard in manifest.shards],
        "_fingerprint": digest(manifest.content_hash)[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    publish_json(root / "state.json", state)
