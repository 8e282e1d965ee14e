"""Rows and batches as torch tensors: map-style, iterable, and a loader whose state counts what was delivered.

torch reads the memory of our arrays. Token ids of 4 bytes become int32 tensors and 8-byte ones int64
without a copy; torch cannot compute with unsigned 2-byte integers, so those are widened to int64.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import explain_missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.feed import Feed, RowBatch
    from tokenmill.datasets.reader.rows import Rows


def _torch() -> Any:
    with explain_missing("torch", "torch", "to_torch()"):
        import torch
    return torch


def to_tensor(array: NDArray[Any], dtype: Any = None) -> Any:
    """An array as a tensor: the same memory where torch has the type, a widened copy where not."""
    torch = _torch()
    if array.dtype == np.uint32:
        # Ids are below 2^31, so the same bytes are the same numbers.
        array = array.view(np.int32)
    elif array.dtype == np.uint16:
        array = array.astype(np.int64)
    made = torch.from_numpy(array)
    return made if dtype is None else made.to(dtype)


def to_tensors(batch: RowBatch, dtype: Any = None) -> dict[str, Any]:
    """Every array of a batch as a tensor; `dtype` applies to `input_ids`."""
    return {
        key: to_tensor(value, dtype if key == "input_ids" else None)
        if isinstance(value, np.ndarray)
        else value
        for key, value in batch.items()
    }


class MapRows:
    """A map-style dataset for `torch.utils.data.DataLoader`: `{"input_ids": tensor}` per row, and columns.

    A row that needs no widening is the file itself: read it, do not write into it (`clone()` first).
    """

    def __init__(self, rows: Rows, dtype: Any = None) -> None:
        self.rows = rows
        self.dtype = dtype
        with warnings.catch_warnings():
            # torch warns once per process that a mapped array is not writable; the docstring says so.
            warnings.simplefilter("ignore")
            _torch().from_numpy(np.frombuffer(b"\0\0\0\0", dtype=np.int32))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One row as tensors."""
        if self.rows.columns:
            return to_tensors(self.rows.example(index), self.dtype)
        return {"input_ids": to_tensor(self.rows[index], self.dtype)}


class _FeedIterable:
    """What `make_iterable` makes a torch class of; pickled as a call of it, for workers that are spawned."""

    def __init__(self, feed: Feed, dtype: Any) -> None:
        self.feed = feed
        self.dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return make_iterable, (self.feed, self.dtype)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = _torch().utils.data.get_worker_info()
        turns = self.feed.turns
        if info is not None:
            turns = replace(turns, worker=info.id, workers=info.num_workers)
        for batch in self.feed.batches(turns, prefetch=0):
            yield to_tensors(batch, self.dtype)

    def __len__(self) -> int:
        return len(self.feed)


def make_iterable(feed: Feed, dtype: Any = None) -> Any:
    """A torch `IterableDataset` of whole batches, for a `DataLoader` with `batch_size=None`."""
    base = _torch().utils.data.IterableDataset
    return type("IterableRows", (_FeedIterable, base), {})(feed, dtype)


class Loader:
    """A `DataLoader` over a feed that knows how far the training loop has come.

    Workers read ahead; `state_dict` counts the batches that were handed over, not those read.
    """

    def __init__(self, feed: Feed, num_workers: int = 0, *, dtype: Any = None, **options: Any) -> None:
        self.feed = feed
        self.num_workers = num_workers
        self.dtype = dtype
        self.options = options
        _torch()

    def __len__(self) -> int:
        """How many batches this rank has left in the epoch."""
        return len(self.feed)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        data = _torch().utils.data
        if not self.num_workers and not self.options:
            return self.feed.deliver(to_tensors(batch, self.dtype) for batch in self.feed.batches())
        loader = data.DataLoader(
            make_iterable(self.feed, self.dtype),
            batch_size=None,
            num_workers=self.num_workers,
            **self.options,
        )
        return self.feed.deliver(iter(loader))

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, from 0."""
        return self.feed.epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the whole run is; equal on every rank that has had the same number of batches."""
        return self.feed.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, of any world size, batch size or worker count."""
        self.feed.load_state_dict(state)
