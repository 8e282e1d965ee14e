"""A dataset as Hugging Face `datasets` sees it: an Arrow table over the mapped files, where rows allow it.

Nothing is written and no cache directory is used. Rows that cross shards, overlap or have columns are
gathered into memory; documents and plain rows stay in the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.datasets.columns import LOSS_MASK
from tokenmill.errors import explain_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.datasets.reader.rows import Rows

_GATHERED = 1024
# The column by which TRL knows packed rows.
SEQ_LENGTHS = "seq_lengths"


def documents_to_hf(dataset: Dataset) -> Any:
    """One example per document: `{"input_ids": [...]}`, and `loss_mask` where the dataset has one."""
    chunks, masks = [], []
    for index, entry in enumerate(dataset.shards.entries):
        offsets = dataset.shards.offsets(entry) if dataset.manifest.layout == "documents" else None
        if offsets is not None:
            values = pa.array(dataset.shards.tokens(index))
            places = pa.array(offsets.astype(np.int64))
            chunks.append(pa.LargeListArray.from_arrays(places, values))
            if dataset.has_loss_mask:
                taught = dataset.shards.read_learned(dataset.shards.token_starts[index], entry.tokens)
                masks.append(pa.LargeListArray.from_arrays(places, pa.array(taught.astype(np.int8))))
    kind, mask_kind = pa.large_list(pa.from_numpy_dtype(dataset.dtype)), pa.large_list(pa.int8())
    if dataset.manifest.layout != "documents":
        chunks.append(pa.array(list(dataset), type=kind))
        if dataset.has_loss_mask:
            taught_each = [dataset.loss_mask(index).astype(np.int8) for index in range(len(dataset))]
            masks.append(pa.array(taught_each, type=mask_kind))
    columns = {"input_ids": pa.chunked_array(chunks, type=kind)}
    if dataset.has_loss_mask:
        columns[LOSS_MASK] = pa.chunked_array(masks, type=mask_kind)
    table = pa.table(columns)
    return _wrap(table, f"{dataset.content_hash[:16]}-documents")


def rows_to_hf(rows: Rows, *, seq_lengths: bool = False) -> Any:
    """One example per row, with the columns that the rows were opened with, and the lengths for TRL."""
    plain = not rows.columns and not rows.overlap and rows.dtype == rows.dataset.dtype
    parts = _map_rows(rows) if plain else _gather(rows)
    kind = pa.list_(pa.from_numpy_dtype(rows.dtype), rows.context_length)
    if not parts:
        parts = [{"input_ids": pa.array([], type=kind)}]
    table = pa.concat_tables([pa.table(part) for part in parts])
    name = f"{rows.dataset.content_hash[:16]}-{rows.context_length}-{rows.overlap}-{'-'.join(rows.columns)}"
    if seq_lengths:
        table = table.append_column(SEQ_LENGTHS, _list_lengths(rows))
        name += f"-{SEQ_LENGTHS}"
    return _wrap(table, name)


def _list_lengths(rows: Rows) -> Any:
    """How long each stretch of each row is; together they are the row."""
    found = []
    for index in range(len(rows)):
        lengths = rows.spans(index)[:, 2].tolist()
        rest = rows.context_length - sum(lengths)
        found.append(lengths + ([rest] if rest else []))
    return pa.array(found, type=pa.list_(pa.int64()))


def _map_rows(rows: Rows) -> list[dict[str, Any]]:
    """Whole runs of rows inside a shard as views of its file, and the rows between as copies."""
    shards, length = rows.dataset.shards, rows.context_length
    parts, row = [], 0
    while row < len(rows):
        index, local = shards.locate(row * length)
        inside = min((shards.entries[index].tokens - local) // length, len(rows) - row)
        flat = shards.tokens(index)[local : local + inside * length] if inside else rows[row]
        parts.append({"input_ids": _fix_length(flat, length)})
        row += max(inside, 1)
    return parts


def _gather(rows: Rows) -> list[dict[str, Any]]:
    parts = []
    for start in range(0, len(rows), _GATHERED):
        batch = rows.gather(np.arange(start, min(start + _GATHERED, len(rows))))
        parts.append(
            {
                key: _fix_length(value.reshape(-1), rows.context_length)
                for key, value in batch.items()
                if np.ndim(value) > 1
            }
        )
    return parts


def _fix_length(flat: NDArray[Any], length: int) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), length)


def _wrap(table: Any, fingerprint: str) -> Any:
    with explain_missing("datasets", "hf", "to_hf()"):
        import datasets
    # Without a fingerprint of its own, `datasets` would hash the whole table, and so read every shard.
    return datasets.Dataset(table, fingerprint=fingerprint)
