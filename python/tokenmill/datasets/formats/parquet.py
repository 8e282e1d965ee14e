"""The `parquet` format: one row group per batch of items."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.table import TableWriter, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa


def _open_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=4096)


# zstd, because dictionary pages do nothing for token ids.
_open_sink = partial(pq.ParquetWriter, compression="zstd", use_dictionary=False, version="2.6")

FORMAT = Format(
    name="parquet",
    writer=partial(TableWriter, suffix=".parquet", open_sink=_open_sink),
    reader=partial(read_table, _open_batches),
    read_by="pyarrow.parquet",
    document_columns=True,
)
