"""The `arrow` and `parquet` formats: tables with a column of token lists and the other columns.

`arrow` consists of Arrow IPC streams and the two files that `datasets.load_from_disk` requires.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tokenmill.base.durable import DurableFile, digest, publish_json
from tokenmill.base.texts import to_arrow
from tokenmill.datasets.documents import find_column, make_offsets
from tokenmill.datasets.formats.files import BatchWriter, Columns, Items, ShardShape
from tokenmill.datasets.formats.format import Format
from tokenmill.datasets.ledger.manifest import Manifest
from tokenmill.sources.discover import SPLITS, STATE

_IDS = "input_ids"
_ROLE = "table"
_INFO = "dataset_info.json"


def _make_schema(dtype: str, row_length: int | None, columns: tuple[str, ...]) -> pa.Schema:
    """Return `input_ids` and the columns, as lists of fixed size for rows and of any size for documents."""
    size = -1 if row_length is None else row_length
    types = {_IDS: dtype} | {name: find_column(name).stored for name in columns}
    return pa.schema([(name, pa.list_(pa.type_for_alias(kind), size)) for name, kind in types.items()])


class TableWriter(BatchWriter):
    """Write each batch to an Arrow writer, such as `pa.ipc.new_stream` returns."""

    tokens_as = _IDS

    def __init__(self, shape: ShardShape, suffix: str, open_sink: Callable[[Any, pa.Schema], Any]) -> None:
        super().__init__(shape)
        self._schema = _make_schema(shape.dtype, shape.context_length, shape.columns)
        self._appender = Appender(self.open(_ROLE, suffix))
        self._sink = open_sink(pa.PythonFile(self._appender, mode="w"), self._schema)

    def write_batch(self, arrays: Columns, offsets: NDArray[np.int64]) -> None:
        """Write one record batch, or one row group."""
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
        """Write the last batch, and the end of the stream or the footer."""
        super().finish()
        self._sink.close()

    def discard(self) -> None:
        """Remove the file. A Parquet writer writes its footer even when it is garbage-collected."""
        self._appender.discarded = True
        super().discard()


class Appender(io.RawIOBase):
    """Let Arrow append to a durable file, whose bytes are hashed while they are written."""

    def __init__(self, file: DurableFile) -> None:
        super().__init__()
        self._file = file
        self.discarded = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Append bytes, or ignore them if the file was discarded."""
        return memoryview(data).nbytes if self.discarded else self._file.write(data)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._file.size


def _read(open_batches: Callable[[Path], Iterable[pa.RecordBatch]], path: Path) -> Iterator[Items]:
    """Yield the items of a table, a record batch at a time."""
    for batch in open_batches(path):
        lengths = np.asarray(pc.list_value_length(batch.column(_IDS)))
        flat = {name: np.asarray(batch.column(name).flatten()) for name in batch.schema.names}
        yield Items(flat.pop(_IDS), make_offsets(lengths), flat)


def _open_arrow(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        yield from pa.ipc.open_stream(source)


def _open_parquet(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=4096)


def _new_parquet(sink: Any, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    # zstd without dictionary pages, which do not shrink token ids.
    return pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=False, version="2.6")


def _finish_arrow(root: Path, manifest: Manifest) -> None:
    length = manifest.row_length
    features = {
        field.name: {
            "feature": {"dtype": str(field.type.value_type), "_type": "Value"},
            "length": -1 if length is None else length,
            "_type": "Sequence",
        }
        for field in _make_schema(manifest.dtype, length, manifest.packing.columns)
    }
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    publish_json(root / _INFO, info)
    state: dict[str, Any] = {
        "_data_files": [{"filename": shard.file(_ROLE).path} for shard in manifest.shards],
        "_fingerprint": digest(manifest.content_hash)[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    publish_json(root / STATE, state)


ARROW = Format(
    name="arrow",
    writer=partial(TableWriter, suffix=".arrow", open_sink=pa.ipc.new_stream),
    read_table=partial(_read, _open_arrow),
    read_by="datasets.load_from_disk",
    document_columns=True,
    extra_files=(STATE, _INFO),
    finish=_finish_arrow,
    split_list=SPLITS,
)
# One row group per batch of items.
PARQUET = Format(
    name="parquet",
    writer=partial(TableWriter, suffix=".parquet", open_sink=_new_parquet),
    read_table=partial(_read, _open_parquet),
    read_by="pyarrow.parquet",
    document_columns=True,
)
