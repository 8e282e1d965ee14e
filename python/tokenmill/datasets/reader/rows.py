"""Rows: training examples of one length, cut from the tokens at read time or as they were packed.

Row *i* of a `stream` dataset is tokens `i * (context_length - overlap)` and the `context_length - 1`
after it, whatever shard they lie in; so any length can be tried without preparing again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tokenmill.datasets.columns import COLUMNS, find_column
from tokenmill.datasets.ledger.manifest import content_hash
from tokenmill.datasets.reader.feed import Feed
from tokenmill.datasets.reader.spans import CU_SEQLENS, SpanFinder, make_columns
from tokenmill.datasets.reader.turns import Turns
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import DTypeLike, NDArray

    from tokenmill.datasets.reader.dataset import Dataset

Tail = Literal["drop", "pad"]


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

    keeps_order = False

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
        self.dataset = dataset
        self.context_length = context_length
        self.overlap = overlap
        self.tail = tail
        self.pad_id = pad_id
        self.columns = _check_columns(columns)
        self.dtype = dataset.dtype if dtype is None else np.dtype(dtype)
        self._shards = dataset.shards
        self._finder = SpanFinder(dataset.shards)
        self._stride = context_length - overlap
        self._whole = max(0, (dataset.num_tokens - overlap) // self._stride)
        covered = self._whole * self._stride + overlap if self._whole else 0
        self._left = dataset.num_tokens - covered
        self._length = self._whole + (tail == "pad" and self._left > 0)

    # What is mapped stays behind when rows go to another process; the dataset maps it anew there.
    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_shards", "_finder")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._shards = self.dataset.shards
        self._finder = SpanFinder(self._shards)

    @property
    def dropped_tokens(self) -> int:
        """Tokens at the very end that fill no row."""
        return 0 if self.tail == "pad" else self._left

    @property
    def sources(self) -> list[Rows]:
        """Itself: the only source of its rows."""
        return [self]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Row `index` as stored; a read-only view of the file unless it crosses into another shard."""
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"row {index} is outside 0..{self._length - 1}")
        if index < self._whole:
            return self._shards.read(index * self._stride, self.context_length)
        return self._pad(index)

    def _pad(self, index: int) -> NDArray[Any]:
        start = index * self._stride
        part = self._shards.read(start, self.dataset.num_tokens - start)
        row = np.full(self.context_length, self.pad_id, dtype=self.dataset.dtype)
        row[: len(part)] = part
        return row

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(self._length))

    def example(self, index: int) -> dict[str, Any]:
        """One row with its columns: `{"input_ids": [...], "position_ids": [...]}`."""
        batch = self.gather(np.array([range(self._length)[index]], dtype=np.int64))
        return {key: value[0] if np.ndim(value) > 1 else value for key, value in batch.items()}

    def gather(self, rows: NDArray[np.int64], epoch: int = 0) -> dict[str, Any]:  # noqa: ARG002
        """These rows in one array, `[len(rows), context_length]`, and one array per column."""
        numbers: list[int] = rows.tolist()
        if numbers and numbers[-1] - numbers[0] != len(numbers) - 1:
            self._shards.expect((row * self._stride for row in numbers), self.context_length)
        ids = np.empty((len(rows), self.context_length), dtype=self.dtype)
        for place, row in enumerate(numbers):
            ids[place] = self[row]
        batch: dict[str, Any] = {"input_ids": ids}
        if self.columns:
            spans = [self.spans(row) for row in numbers]
            batch |= make_columns(self.columns, ids, spans, self._read_learned(numbers))
        return batch

    def number(self, source: int) -> int:
        """What a source is called in batches and traces: its own number."""
        return source

    def locate(self, rows: NDArray[np.int64], epoch: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which source each row is of, and its number there: always the only one, and as given."""
        del epoch
        return np.zeros_like(rows), rows

    def find(self, source: int, rows: NDArray[np.int64], epoch: int = 0) -> NDArray[np.int64]:
        """Where rows of a source are: the inverse of `locate`."""
        del source, epoch
        return rows

    def _read_learned(self, rows: list[int]) -> NDArray[np.bool_] | None:
        """What of these rows is learned; None where the dataset does not say, or nobody asks."""
        wanted = [find_column(name) for name in self.columns if name != CU_SEQLENS]
        if not self._shards.masked or not any(column.trained for column in wanted):
            return None
        taught = np.zeros((len(rows), self.context_length), bool)
        for place, row in enumerate(rows):
            start = row * self._stride
            length = min(self.context_length, self.dataset.num_tokens - start)
            taught[place, :length] = self._shards.read_learned(start, length)
        return taught

    def spans(self, index: int) -> NDArray[np.int64]:
        """(document, place, length, start) of each document's stretch in a row; the rest is padding.

        `place` counts in the row and `start` in the document's own tokens.
        """
        start = index * self._stride
        length = min(self.context_length, self.dataset.num_tokens - start)
        return self._finder.find(start, length)

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
        """Batches of this rank, in order or shuffled, with a state that a run can go on from.

        Args:
            batch_size: Rows in a batch.
            shuffle: Another order in every epoch, the same on every rank.
            seed: Which orders.
            rank: This process among `world_size`; each reads rows of its own.
            world_size: How many processes share an epoch.
            drop_last: Leave out a last, smaller batch.
            prefetch: Batches that a thread reads ahead.

        Returns:
            A feed: iterate over it once for each epoch.

        Raises:
            ConfigError: A number is out of its range.
        """
        turns = Turns(rank, world_size)
        chosen = seed if shuffle else None
        return Feed(self, batch_size, seed=chosen, turns=turns, drop_last=drop_last, prefetch=prefetch)

    def to_torch(self, dtype: Any = None) -> Any:
        """A map-style torch dataset of the same rows; see `dataset.torch.MapRows`."""
        from tokenmill.datasets.reader.torch import MapRows

        return MapRows(self, dtype)

    def to_hf(self, *, seq_lengths: bool = False) -> Any:
        """A Hugging Face `datasets.Dataset` of the same rows and columns.

        With `seq_lengths`, a column of that name has the lengths of the documents' stretches in each row,
        from which TRL makes position ids; padding at the end is one more stretch.
        """
        from tokenmill.datasets.reader.hf import rows_to_hf

        return rows_to_hf(self, seq_lengths=seq_lengths)

    def identity(self) -> dict[str, Any]:
        """What decides the rows and their numbers."""
        return {
            "dataset": self.dataset.content_hash,
            "shards": len(self.dataset.manifest.shards),
            "rows": self._length,
            "context_length": self.context_length,
            "overlap": self.overlap,
            "tail": self.tail,
        }

    def as_of(self, identity: Mapping[str, Any]) -> Rows:
        """These rows as they were when the dataset had only its first shards; see `grew_from`."""
        if identity == self.identity():
            return self
        manifest = self.dataset.manifest
        then = replace(manifest, shards=manifest.shards[: identity["shards"]])
        return Rows(
            type(self.dataset)(self.dataset.path, then, self._shards.cache),
            self.context_length,
            self.overlap,
            tail=self.tail,
            pad_id=self.pad_id,
            columns=self.columns,
            dtype=self.dtype,
        )

    def grew_from(self, identity: Mapping[str, Any]) -> bool:
        """True when the dataset of `identity` is the beginning of this one."""
        same = all(identity.get(key) == self.identity()[key] for key in ("context_length", "overlap", "tail"))
        count = identity.get("shards")
        shards = self.dataset.manifest.shards
        if not same or not isinstance(count, int) or count > len(shards):
            return False
        return content_hash(shards[:count]) == identity.get("dataset")


def _check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    known = (*COLUMNS, CU_SEQLENS)
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise ConfigError(f"columns has {unknown[0]!r}; known columns are {', '.join(known)}")
    return tuple(columns)
