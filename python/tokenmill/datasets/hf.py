"""A dataset as a Hugging Face `datasets.Dataset`: an Arrow table over the mapped files where possible.

Nothing is written and no cache directory is used. Rows that cross shards, overlap or have columns are copied
into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tokenmill.base.learned import is_learned, strip_marks
from tokenmill.datasets.columns import LOSS_MASK
from tokenmill.errors import explain_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.dataset import Dataset
    from tokenmill.datasets.rows import Rows

_GATHERED = 1024
# The column from which TRL makes position ids of packed rows.
SEQ_LENGTHS = "seq_lengths"


def documents_to_hf(dataset: Dataset) -> Any:
    """Return one example per document: `{"input_ids": [...]}`, and `loss_mask` if the dataset has one."""
    kinds = {"input_ids": pa.large_list(pa.from_numpy_dtype(dataset.dtype))}
    if dataset.has_loss_mask:
        kinds[LOSS_MASK] = pa.large_list(pa.int8())
    chunks: dict[str, list[Any]] = {name: [] for name in kinds}
    for index, entry in enumerate(dataset.shards.entries):
        groups = dataset.shards.read_documents(index, max(entry.tokens, 1), marked=dataset.has_loss_mask)
        for _, ids, offsets in groups:
            values = [ids]
            if dataset.has_loss_mask:
                values = [strip_marks(ids).astype(dataset.dtype), is_learned(ids).astype(np.int8)]
            for name, flat in zip(kinds, values, strict=True):
                chunks[name].append(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat)))
    table = pa.table({name: pa.chunked_array(chunks[name], type=kind) for name, kind in kinds.items()})
    return _wrap(table, f"{dataset.content_hash[:16]}-documents")


def rows_to_hf(rows: Rows, *, seq_lengths: bool = False) -> Any:
    """Return one example per row, with the columns of the rows, and the lengths for TRL if requested."""
    plain = not rows.columns and not rows.overlap and rows.dtype == rows.dataset.dtype
    parts = _map_rows(rows) if plain else _gather(rows)
    kind = pa.list_(pa.from_numpy_dtype(rows.dtype), rows.context_length)
    table = pa.concat_tables(
        [pa.table(part) for part in parts] or [pa.table({"input_ids": pa.array([], type=kind)})]
    )
    name = f"{rows.dataset.content_hash[:16]}-{rows.context_length}-{rows.overlap}-{'-'.join(rows.columns)}"
    if seq_lengths:
        lengths = []
        for index in range(len(rows)):
            mine = rows.spans(index)[:, 2].tolist()
            padding = rows.context_length - sum(mine)
            lengths.append(mine + [padding] * (padding > 0))
        table = table.append_column(SEQ_LENGTHS, pa.array(lengths, type=pa.list_(pa.int64())))
        name += f"-{SEQ_LENGTHS}"
    return _wrap(table, name)


def _map_rows(rows: Rows) -> list[dict[str, Any]]:
    """Return runs of rows inside a shard as views of its file, and the rows between as copies."""
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
        flat = {key: value.reshape(-1) for key, value in batch.items() if np.ndim(value) > 1}
        parts.append({key: _fix_length(value, rows.context_length) for key, value in flat.items()})
    return parts


def _fix_length(flat: NDArray[Any], length: int) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), length)


def _wrap(table: Any, fingerprint: str) -> Any:
    with explain_missing("datasets", "hf", "to_hf()"):
        import datasets
    # Without a fingerprint, `datasets` would hash the whole table and so read every shard.
    return datasets.Dataset(table, fingerprint=fingerprint)
