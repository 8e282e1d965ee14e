"""Rows and batches as torch tensors: map-style, iterable, and a loader with a state.

Tensors share the memory of the arrays: uint32 ids become int32 and int64 stays, without a copy. torch cannot
compute with uint16, so those ids are widened to int64.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import explain_missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from tokenmill.datasets.feed import Feed, RowBatch
    from tokenmill.datasets.rows import Rows


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
    """Return every array of a batch as a tensor; `dtype` applies to `input_ids`."""
    return {
        key: to_tensor(value, dtype if key == "input_ids" else None)
        if isinstance(value, np.ndarray)
        else value
        for key, value in batch.items()
    }


class MapRows:
    """A map-style dataset for `torch.utils.data.DataLoader`: `{"input_ids": tensor}` per row, and columns.

    A row that needs no widening is the file itself: `clone()` it before writing to it.
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


class _FeedIterable:
    """The base of the torch class that `make_iterable` makes; pickled as a call of it for spawned workers."""

    def __init__(self, feed: Feed, dtype: Any) -> None:
        self.feed = feed
        self.dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return make_iterable, (self.feed, self.dtype)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = _torch().utils.data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        for batch in self.feed.batches(worker, workers, prefetch=0):
            yield to_tensors(batch, self.dtype)

    def __len__(self) -> int:
        return len(self.feed)


def make_iterable(feed: Feed, dtype: Any = None) -> Any:
    """Return a torch `IterableDataset` of whole batches, for a `DataLoader` with `batch_size=None`."""
    base = _torch().utils.data.IterableDataset
    return type("IterableRows", (_FeedIterable, base), {})(feed, dtype)


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
            return self.feed.deliver(to_tensors(batch, self.dtype) for batch in self.feed.batches())
        rows = make_iterable(self.feed, self.dtype)
        loader = _torch().utils.data.DataLoader(
            rows, batch_size=None, num_workers=self.num_workers, **self.options
        )
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
