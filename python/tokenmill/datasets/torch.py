"""Convert datasets for other libraries: torch tensors and loaders, Hugging Face `datasets.Dataset`.

Tensors share the memory of the arrays: uint32 ids become int32 and int64 stays, without a copy. torch cannot
compute with uint16, so those ids are widened to int64. A Hugging Face dataset is an Arrow table over the
mapped files; rows that cross shards, overlap or have columns are copied into memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tokenmill.base.durable import digest
from tokenmill.datasets.feed import Feed, RowBatch
from tokenmill.datasets.rows import Rows
from tokenmill.errors import explain_missing


def _torch() -> Any:
    with explain_missing("torch", "torch", "to_torch()"):
        import torch
    return torch


def to_tensor(array: NDArray[Any], dtype: Any = None) -> Any:
    """Return an array as a tensor: the same memory if torch has the type, otherwise a widened copy."""
    if array.dtype == np.uint32:
        # Ids are below 2^31, so the same bytes are the same numbers.
        array = array.view(np.int32)
    elif array.dtype == np.uint16:
        array = array.astype(np.int64)
    made = _torch().from_numpy(array)
    return made if dtype is None else made.to(dtype)


def to_tensors(batch: RowBatch, dtype: Any = None) -> dict[str, Any]:
    """Return every array of a batch as a tensor. `dtype` applies to `input_ids`."""
    arrays = {key: value for key, value in batch.items() if isinstance(value, np.ndarray)}
    types = {"input_ids": dtype}
    return batch | {key: to_tensor(value, types.get(key)) for key, value in arrays.items()}


class MapRows:
    """A map-style dataset for `torch.utils.data.DataLoader`: `{"input_ids": tensor}` per row, and columns.

    A row that needs no widening may share the memory of the file: `clone()` it before writing to it.
    """

    def __init__(self, rows: Rows, dtype: Any = None) -> None:
        self.rows = rows
        self.dtype = dtype
        with warnings.catch_warnings():
            # torch warns once per process that a mapped array is read-only.
            warnings.simplefilter("ignore")
            _torch().from_numpy(np.frombuffer(b"\0\0\0\0", dtype=np.int32))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one row as tensors."""
        if self.rows.columns:
            return to_tensors(self.rows.example(index), self.dtype)
        return {"input_ids": to_tensor(self.rows[index], self.dtype)}


class _Steps:
    """A map-style dataset of whole batches: the index is the first position of a step."""

    def __init__(self, feed: Feed, dtype: Any) -> None:
        self.feed = feed
        self.dtype = dtype

    def __getitem__(self, base: int) -> dict[str, Any]:
        return to_tensors(self.feed.read(base), self.dtype)


class Loader:
    """A `DataLoader` over a feed whose state counts the batches handed over, not those read ahead."""

    def __init__(self, feed: Feed, num_workers: int = 0, *, dtype: Any = None, **options: Any) -> None:
        self.feed = feed
        self.num_workers = num_workers
        self.dtype = dtype
        self.options = options
        _torch()

    def __len__(self) -> int:
        """Return the number of batches that this rank has left in the epoch."""
        return len(self.feed)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self.num_workers and not self.options:
            return (to_tensors(batch, self.dtype) for batch in self.feed)
        torch, steps = _torch(), self.feed.find_steps(self.feed.rank, self.feed.position)
        # A separate generator: seeding the workers must not advance the one that dropout uses.
        options = {"sampler": steps, "batch_size": None, "generator": torch.Generator(), **self.options}
        dataset, workers = _Steps(self.feed, self.dtype), self.num_workers
        loader = torch.utils.data.DataLoader(dataset, num_workers=workers, **options)
        return self.feed.deliver(iter(loader))

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, from 0."""
        return self.feed.epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the whole run: equal on every rank after the same number of batches."""
        return self.feed.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state of any world size, batch size or worker count."""
        self.feed.load_state_dict(state)


_GATHERED = 1024
# The column from which TRL makes position ids of packed rows.
SEQ_LENGTHS = "seq_lengths"


def rows_to_hf(rows: Rows, *, seq_lengths: bool = False) -> Any:
    """Return one example per row, with the columns of the rows, and the lengths for TRL if requested."""
    view, plain = rows.view, not rows.columns and not rows.exclude and rows.dtype == rows.dataset.dtype
    if plain and view.by_position and not view.overlap:
        parts = _map_rows(rows)
    else:
        starts = range(0, len(rows), _GATHERED)
        batches = (rows.gather(np.arange(at, min(at + _GATHERED, len(rows)))) for at in starts)
        parts = [{key: value for key, value in each.items() if np.ndim(value) > 1} for each in batches]
    tables = [
        pa.table(
            {
                key: pa.FixedSizeListArray.from_arrays(pa.array(value.reshape(-1)), rows.context_length)
                for key, value in part.items()
            }
        )
        for part in parts
    ]
    kind = pa.list_(pa.from_numpy_dtype(rows.dtype), rows.context_length)
    table = pa.concat_tables(tables or [pa.table({"input_ids": pa.array([], type=kind)})])
    name = f"{rows.dataset.content_hash[:16]}-{digest([rows.identity(), rows.columns])[:16]}"
    if seq_lengths:
        spans = (rows.spans(index)[:, 2].tolist() for index in range(len(rows)))
        pads = ((each, rows.context_length - sum(each)) for each in spans)
        lengths = [each + [padding] * (padding > 0) for each, padding in pads]
        table = table.append_column(SEQ_LENGTHS, pa.array(lengths, type=pa.list_(pa.int64())))
        name += f"-{SEQ_LENGTHS}"
    with explain_missing("datasets", "hf", "to_hf()"):
        import datasets
    # Without a fingerprint, `datasets` would hash the whole table and so read every shard.
    return datasets.Dataset(table, fingerprint=name)


def _map_rows(rows: Rows) -> list[dict[str, Any]]:
    """Return runs of rows within a shard as views of its file, and rows across shards as copies."""
    shards, length = rows.dataset.shards, rows.context_length
    parts, row = [], 0
    while row < len(rows):
        index, local = shards.locate(row * length)
        inside = min((shards.entries[index].tokens - local) // length, len(rows) - row)
        flat = shards.file(index)[local : local + inside * length] if inside else rows[row]
        parts.append({"input_ids": flat})
        row += max(inside, 1)
    return parts
