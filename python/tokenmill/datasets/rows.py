"""Rows: training examples of one length, cut from the tokens at read time or as they were packed.

Row *i* is the `context_length` tokens from `i * (context_length - overlap)` on, across shards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tokenmill.datasets.documents import COLUMNS, LOSS_MASK, Cover, find_column
from tokenmill.datasets.feed import Feed
from tokenmill.datasets.ledger.manifest import content_hash
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from tokenmill.datasets.dataset import Dataset

    Int64s = NDArray[np.int64]

Tail = Literal["drop", "pad"]
# One list for a batch instead of a value per token, so it is computed on reading and never stored.
CU_SEQLENS = "cu_seqlens"


class Rows:
    """A sequence of rows: `rows[i]` is an array of `context_length` token ids, without a copy.

    Made by `Dataset.rows`. `gather` and `batches` give dictionaries of arrays with the columns asked for.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> rows = dataset.rows(context_length=4, columns=["labels"])
    >>> len(rows), rows.example(0)["labels"].shape
    (4, (4,))
    """

    def __init__(
        self,
        dataset: Dataset,
        context_length: int,
        overlap: int = 0,
        *,
        tail: Tail = "drop",
        pad_id: int | None = None,
        columns: Sequence[str] = (),
        dtype: DTypeLike = None,
    ) -> None:
        known = (*COLUMNS, CU_SEQLENS)
        unknown = [column for column in columns if column not in known]
        if unknown:
            raise ConfigError(f"columns has {unknown[0]!r}; known columns are {', '.join(known)}")
        self.dataset = dataset
        self.context_length = context_length
        self.overlap = overlap
        self.tail = tail
        self.pad_id = pad_id
        self.columns = tuple(columns)
        self.dtype = dataset.dtype if dtype is None else np.dtype(dtype)
        pad, size = pad_id or 0, dataset.vocab_size
        integer = np.issubdtype(self.dtype, np.integer)
        if not integer or not 0 <= pad <= np.iinfo(self.dtype).max >= size - 1:
            raise ConfigError(
                f"dtype {self.dtype} does not hold the ids of a vocabulary of {size:,} and the pad_id {pad}: "
                "use int32 or int64, and a pad_id of at least 0"
            )
        self._stride = context_length - overlap
        self._whole = max(0, (dataset.num_tokens - overlap) // self._stride)
        covered = self._whole * self._stride + overlap if self._whole else 0
        self._left = dataset.num_tokens - covered
        self._length = self._whole + (tail == "pad" and self._left > 0)

    @property
    def dropped_tokens(self) -> int:
        """Tokens at the end of the dataset that fill no row."""
        return 0 if self.tail == "pad" else self._left

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Return row `index` as stored; a read-only view of the file unless it crosses into another shard."""
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"row {index} is outside 0..{self._length - 1}")
        if index < self._whole:
            return self.dataset.shards.read(index * self._stride, self.context_length)
        start, length = self._find_range(index)
        row = np.full(self.context_length, self.pad_id, dtype=self.dataset.dtype)
        row[:length] = self.dataset.shards.read(start, length)
        return row

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(self._length))

    def _find_range(self, index: int) -> tuple[int, int]:
        """Return the first token of a row in the dataset, and how many tokens it has; the rest is padding."""
        start = index * self._stride
        return start, min(self.context_length, self.dataset.num_tokens - start)

    def spans(self, index: int) -> Int64s:
        """Return the documents in a row: (document, offset in the row, length, offset in the document)."""
        return self.dataset.shards.find_spans(*self._find_range(index))

    def find_documents(self, documents: Int64s) -> Int64s:
        """Return the numbers of all rows that hold a token of these documents, in ascending order."""
        begins, ends = self.dataset.shards.find_documents(documents)
        first = np.maximum(0, (begins - self.context_length) // self._stride + 1)
        last = np.minimum((ends - 1) // self._stride, self._length - 1)
        counts = np.maximum(0, last - first + 1)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.unique(np.repeat(first, counts) + within)

    def example(self, index: int) -> dict[str, Any]:
        """Return one row with its columns: `{"input_ids": [...], "position_ids": [...]}`."""
        batch = self.gather(np.array([range(self._length)[index]], dtype=np.int64))
        return {key: value[0] if np.ndim(value) > 1 else value for key, value in batch.items()}

    def gather(self, rows: Int64s, epoch: int = 0) -> dict[str, Any]:  # noqa: ARG002
        """Return these rows as one array `[len(rows), context_length]`, and one array per column."""
        numbers: list[int] = rows.tolist()
        if numbers and numbers[-1] - numbers[0] != len(numbers) - 1:
            starts = (row * self._stride for row in numbers)
            self.dataset.shards.advise_willneed(starts, self.context_length)
        ids = np.empty((len(rows), self.context_length), dtype=self.dtype)
        for nth, row in enumerate(numbers):
            ids[nth] = self[row]
        batch: dict[str, Any] = {"input_ids": ids}
        if self.columns:
            spans = [self.spans(row) for row in numbers]
            batch |= make_columns(self.columns, ids, spans, self._read_loss_mask(numbers))
        return batch

    def _read_loss_mask(self, rows: list[int]) -> NDArray[np.bool_] | None:
        """Return the loss mask of these rows, or None if the dataset has none or no column needs it."""
        needed = any(find_column(name).trained for name in self.columns if name != CU_SEQLENS)
        if not needed or not self.dataset.has_loss_mask:
            return None
        mask = np.zeros((len(rows), self.context_length), bool)
        for nth, row in enumerate(rows):
            start, length = self._find_range(row)
            mask[nth, :length] = self.dataset.shards.read(start, length, LOSS_MASK)
        return mask

    def batches(
        self,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        prefetch: int = 0,
    ) -> Feed:
        """Return the batches of this rank, in order or shuffled, with a state to resume from.

        Args:
            batch_size: Rows in a batch.
            shuffle: Use another order in every epoch, the same on every rank.
            seed: The seed of the shuffle.
            rank: This process among `world_size`; each reads other rows.
            world_size: Number of processes that share an epoch.
            drop_last: Leave out a last, smaller batch.
            prefetch: Batches that a thread reads ahead.

        Returns:
            A feed: iterate over it once for each epoch.

        Raises:
            ConfigError: A number is out of its range.
        """
        return Feed(
            self,
            batch_size,
            seed=seed if shuffle else None,
            rank=rank,
            world_size=world_size,
            drop_last=drop_last,
            prefetch=prefetch,
        )

    def to_torch(self, dtype: Any = None) -> Any:
        """Return a map-style torch dataset of the same rows."""
        from tokenmill.datasets.torch import MapRows

        return MapRows(self, dtype)

    def to_hf(self, *, seq_lengths: bool = False) -> Any:
        """Return a Hugging Face `datasets.Dataset` of the same rows and columns.

        With `seq_lengths`, a column of that name has the lengths of the documents' parts of each row, from
        which TRL makes position ids. Padding at the end counts as one more part.
        """
        from tokenmill.datasets.torch import rows_to_hf

        return rows_to_hf(self, seq_lengths=seq_lengths)

    def identity(self) -> dict[str, Any]:
        """Return what decides the rows and their numbers, as plain JSON values."""
        return {
            "dataset": self.dataset.content_hash,
            "shards": len(self.dataset.manifest.shards),
            "rows": self._length,
            "context_length": self.context_length,
            "overlap": self.overlap,
            "tail": self.tail,
        }

    def as_of(self, identity: Mapping[str, Any]) -> Rows | None:
        """Return these rows as they were with this identity, before the dataset grew; None if never."""
        mine = self.identity()
        if identity == mine:
            return self
        manifest, count = self.dataset.manifest, identity.get("shards")
        same = all(identity.get(key) == mine[key] for key in ("context_length", "overlap", "tail"))
        if not same or not isinstance(count, int) or not 0 <= count <= len(manifest.shards):
            return None
        if content_hash(manifest.shards[:count]) != identity.get("dataset"):
            return None
        then = replace(manifest, shards=manifest.shards[:count])
        dataset = type(self.dataset)(self.dataset.path, then, self.dataset.shards.cache)
        cut = {"tail": self.tail, "pad_id": self.pad_id, "columns": self.columns, "dtype": self.dtype}
        return Rows(dataset, self.context_length, self.overlap, **cut)  # type: ignore[arg-type]


def make_columns(
    names: Sequence[str], ids: NDArray[Any], per_row: list[Int64s], loss_mask: NDArray[np.bool_] | None = None
) -> dict[str, Any]:
    """Return the columns of some rows `[rows, context_length]`, from the spans and the loss mask of each."""
    count, length = ids.shape
    row_starts = np.repeat(np.arange(count) * length, [len(spans) for spans in per_row])
    spans = np.concatenate([np.empty((0, 3), dtype=np.int64), *(spans[:, :3] for spans in per_row)])
    flat = None if loss_mask is None else loss_mask.reshape(-1)
    cover = Cover(ids.reshape(-1), spans[:, 0], spans[:, 1] + row_starts, spans[:, 2], flat)
    made: dict[str, Any] = {}
    for column in (find_column(name) for name in names if name != CU_SEQLENS):
        made[column.name] = column.make(cover, column.read).reshape(ids.shape)
    if CU_SEQLENS in names:
        # Attention restarts at each row, each span and each range of padding.
        rows = np.arange(0, count * length + 1, length)
        bounds = np.concatenate([rows, cover.positions, cover.positions + cover.lengths])
        made[CU_SEQLENS] = np.unique(bounds).astype(np.int32)
        made["max_seqlen"] = int(np.diff(made[CU_SEQLENS]).max(initial=0))
    return made
