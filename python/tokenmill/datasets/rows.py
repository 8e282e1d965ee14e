"""Rows: training examples of one length, made from the documents of a dataset when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenmill.datasets.documents import COLUMNS, LOSS_MASK, Cover, find_column
from tokenmill.datasets.feed import Feed
from tokenmill.datasets.layout import IndexLayout, Pieces, PositionLayout
from tokenmill.datasets.ledger.manifest import content_hash
from tokenmill.datasets.order import LocalOrder, Order
from tokenmill.datasets.views import CU_SEQLENS, View, cut_ranges
from tokenmill.errors import ConfigError, UnknownLengthError

if TYPE_CHECKING:
    from tokenmill.datasets.dataset import Dataset
Int64s = NDArray[np.int64]


class Rows:
    """A sequence of rows: `rows[i]` is an array of `context_length` token ids.

    Returned by `Dataset.rows`. `gather` and `batches` return dictionaries of arrays, one for each column.

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
        view: View,
        *,
        pad_id: int | None = None,
        dtype: DTypeLike = None,
        exclude: Sequence[int] = (),
    ) -> None:
        self.dataset = dataset
        self.view = view
        self.pad_id = pad_id
        self.dtype = dataset.dtype if dtype is None else np.dtype(dtype)
        self.exclude = tuple(sorted(exclude))
        pad, size = pad_id or 0, dataset.vocab_size
        integer = np.issubdtype(self.dtype, np.integer)
        if not integer or not 0 <= pad <= np.iinfo(self.dtype.name).max >= size - 1:
            raise ConfigError(
                f"dtype {self.dtype} does not hold the ids of a vocabulary of {size:,} and the pad_id {pad}: "
                "use int32 or int64, and a pad_id of at least 0"
            )
        make = PositionLayout if view.by_position else IndexLayout
        self.layout: PositionLayout | IndexLayout = make(dataset.shards, view)

    def __repr__(self) -> str:
        packing, length = self.view.packing, self.context_length
        return f"Rows({self.dataset.address!r}, context_length={length}, packing={packing!r})"

    @property
    def context_length(self) -> int:
        """Tokens in a row."""
        return self.view.context_length

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of batches other than `input_ids`."""
        return self.view.columns

    @property
    def dropped_tokens(self) -> int:
        """Tokens of the dataset that are in no row."""
        return self.layout.dropped

    def account(self) -> dict[str, int]:
        """Return the number of rows, and of written, repeated, padding and dropped tokens."""
        rows, held, dropped = len(self), self.layout.held, self.layout.dropped
        once, padding = self.dataset.num_tokens - dropped, rows * self.context_length - held
        counts = {"written": once, "repeated": held - once, "padding": padding, "dropped": dropped}
        return {"rows": rows} | counts

    def __len__(self) -> int:
        if self.dataset.shards.endless:
            raise UnknownLengthError(
                f"{self.dataset.address} is a stream: its rows are not counted. `tokenmill prepare` with the "
                "same inputs and output makes every shard"
            )
        return self.layout.rows

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Return row `index`, without a copy (read-only) if it is one range of tokens of one shard."""
        end = self.layout.row_starts[-1]
        number = index + end if index < 0 else index
        if not 0 <= number < end:
            raise IndexError(f"row {index} is outside 0..{end - 1}")
        layout = self.layout
        if isinstance(layout, PositionLayout) and number < layout.whole and not self.exclude:
            return self.dataset.shards.read(number * layout.stride, self.context_length)
        row: NDArray[Any] = self._fill([number], self.dataset.dtype)[0]
        return row

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def _fill(self, numbers: list[int], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return padded rows, with excluded documents replaced by padding."""
        out = self.layout.fill(numbers, dtype, self.pad_id or 0)
        if self.exclude:
            pieces = self.layout.locate(np.array(numbers, dtype=np.int64))
            nth, document, place, length, _ = self._find_spans(pieces, keep_excluded=True)
            for at in np.flatnonzero(np.isin(document, self.exclude)).tolist():
                out[nth[at], place[at] : place[at] + length[at]] = self.pad_id or 0
        return out

    def _find_spans(self, pieces: Iterable[Pieces], *, keep_excluded: bool = False) -> tuple[Int64s, ...]:
        """Return (row, document, place, length, start in the document) of each part, by row and place."""
        shards, found = self.dataset.shards, [tuple(np.empty(0, np.int64) for _ in range(5))]
        for each in pieces:
            offsets = shards.file(each.shard, "offsets")
            ends = each.start + each.length
            owner, document, start, place, length = cut_ranges(offsets, each.start, ends)
            document += shards.document_starts[each.shard]
            found.append((each.nth[owner], document, each.place[owner] + place, length, start))
        spans = [np.concatenate(arrays) for arrays in zip(*found, strict=True)]
        order = np.argsort(spans[0] * self.context_length + spans[2], kind="stable")
        if self.exclude and not keep_excluded:
            order = order[~np.isin(spans[1][order], self.exclude)]
        return tuple(array[order] for array in spans)

    def spans(self, index: int) -> Int64s:
        """Return the documents in a row: (document, offset in the row, length, offset in the document)."""
        return np.stack(self._find_spans(self.layout.locate(np.array([index], dtype=np.int64)))[1:], axis=1)

    def measure_work(self, rows: Int64s) -> Int64s:
        """Return the attention work of each row: the sum of the squared lengths of its documents' parts."""
        nth, _, _, length, _ = self._find_spans(self.layout.locate(rows))
        return np.bincount(nth, weights=length.astype(float) ** 2, minlength=len(rows)).astype(np.int64)

    def find_documents(self, documents: Int64s) -> Int64s:
        """Return the numbers of all rows that hold a token of these documents, in ascending order."""
        shards = self.dataset.shards
        known = np.setdiff1d(documents[documents < shards.document_starts[-1]], self.exclude)
        homes = np.searchsorted(shards.document_starts, known, side="right") - 1
        found = [np.empty(0, np.int64)]
        for shard in np.unique(homes).tolist():
            offsets = shards.file(shard, "offsets")
            local = known[homes == shard] - shards.document_starts[shard]
            local = local[local < len(offsets) - 1]
            begins, ends = (offsets[local + after].astype(np.int64) for after in (0, 1))
            found.append(self.layout.find(shard, begins[ends > begins], ends[ends > begins]))
        return np.unique(np.concatenate(found))

    def example(self, index: int) -> dict[str, Any]:
        """Return one row with its columns: `{"input_ids": [...], "position_ids": [...]}`."""
        batch = self.gather(np.array([range(len(self))[index]], dtype=np.int64))
        return {key: value[0] if np.ndim(value) > 1 else value for key, value in batch.items()}

    def gather(self, rows: Int64s, epoch: int = 0) -> dict[str, Any]:  # noqa: ARG002
        """Return these rows as one array `[len(rows), context_length]`, and one array per column."""
        ids, spans, loss_mask = self.read(rows)
        return {"input_ids": ids} | make_columns(self.columns, ids, spans, loss_mask, self.view.multiple_of)

    def read(self, rows: Int64s) -> tuple[NDArray[Any], tuple[Int64s, ...], NDArray[np.bool_] | None]:
        """Return the ids of some rows, and the document spans and the loss mask if the columns need them."""
        numbers: list[int] = rows.tolist()
        shards = self.dataset.shards
        shuffled = bool(numbers) and numbers[-1] - numbers[0] != len(numbers) - 1
        pieces = list(self.layout.locate(rows)) if self.columns or (shuffled and shards.cold) else []
        if shuffled and shards.cold:
            for each in pieces:
                shards.advise_willneed(each.shard, each.start, each.length)
        with shards.watch_faults():
            ids = self._fill(numbers, self.dtype)
        if not self.columns:
            return ids, (), None
        spans, known = self._find_spans(pieces), [COLUMNS[n] for n in self.columns if n in COLUMNS]
        if not shards.has_loss_mask or not any(column.trained for column in known):
            return ids, spans, None
        return ids, spans, self.layout.fill(numbers, np.dtype(bool), 0, LOSS_MASK)

    def batches(
        self,
        batch_size: int,
        *,
        shuffle: bool | Literal["local"] = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        prefetch: int = 0,
        balance: bool = False,
        window: int = 8,
        lanes: int | None = None,
    ) -> Feed:
        """Return the batches of this rank, in order or shuffled, with a state to resume from.

        Args:
            batch_size: Rows in a batch.
            shuffle: Use another order in every epoch, the same on every rank. "local" reads a few shards at
                a time: for object stores and streams.
            seed: The seed of the shuffle.
            rank: The rank of this process. Each rank reads different rows.
            world_size: Number of processes that share an epoch.
            drop_last: Drop a smaller last batch.
            prefetch: Batches that a thread reads ahead.
            balance: Give the ranks of a step rows of similar attention work; needs `shuffle`.
            window: In local order, the number of shards whose rows are mixed.
            lanes: In local order, the number of sequences of shards, by default `world_size`. The order
                depends on it, so a resumed run keeps it even with another world size.

        Returns:
            A feed: iterate over it once for each epoch.

        Raises:
            ConfigError: A number is out of its range.
        """
        endless = self.dataset.shards.endless
        if shuffle not in (True, False, "local"):
            raise ConfigError(f"shuffle is {shuffle!r}; it must be True, False or 'local'")
        if window < 1 or (lanes or 1) < 1:
            raise ConfigError(f"window={window}, lanes={lanes}: both must be at least 1")
        if endless and shuffle is True:
            raise ConfigError(
                "shuffle=True needs the number of all rows, which a stream does not have: use shuffle='local'"
            )
        if balance and shuffle is not True:
            raise ConfigError("balance=True orders all rows: set shuffle=True")
        key, local = seed if shuffle else None, (lanes or world_size, window)
        order: Order | LocalOrder
        if shuffle == "local" or endless:
            order = LocalOrder(self.layout, seed=key, local=local)
        else:
            order = Order([len(self)], seed=key, work=self.measure_work if balance else None)
        return Feed(self, order, batch_size, rank, world_size, drop_last=drop_last, prefetch=prefetch)

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
        """Return the values that determine the rows and their numbers, ready for JSON."""
        if self.dataset.shards.endless:
            return {"units": self.dataset.units_hash, **self.view.layout()}
        found = {
            "dataset": self.dataset.content_hash,
            "shards": len(self.dataset.manifest.shards),
            "rows": len(self),
            **self.view.layout(),
        }
        return found | ({"exclude": list(self.exclude)} if self.exclude else {})

    def extends(self, identity: Mapping[str, Any]) -> bool:
        """Return True if these rows have an identity, or had it before the dataset grew.

        The identity of a stream matches the dataset prepared from the same units.
        """
        layout = self.view.layout()
        if identity in (self.identity(), {"units": self.dataset.units_hash, **layout}):
            return True
        # Excluded documents do not change the numbers of rows.
        before = {key: value for key, value in identity.items() if key not in {"rows", "exclude"}}
        shards = self.dataset.manifest.shards[: identity.get("shards", 0)]
        return before == {"dataset": content_hash(shards), "shards": len(shards), **layout}


def make_columns(
    names: Sequence[str],
    ids: NDArray[Any],
    spans: tuple[Int64s, ...],
    loss_mask: NDArray[np.bool_] | None = None,
    multiple_of: int = 1,
) -> dict[str, Any]:
    """Return the columns of some rows `[rows, context_length]`, from their spans and their loss mask."""
    if not names:
        return {}
    count, length = ids.shape
    nth, document, place, size, _ = spans
    flat = None if loss_mask is None else loss_mask.reshape(-1)
    cover = Cover(ids.reshape(-1), document, nth * length + place, size, flat)
    made: dict[str, Any] = {}
    for column in (find_column(name) for name in names if name != CU_SEQLENS):
        made[column.name] = column.make(cover, column.read).reshape(ids.shape)
    if CU_SEQLENS in names:
        made |= _make_cu_seqlens(cover.positions, size, count, length, padded=multiple_of > 1)
    return made


def _make_cu_seqlens(
    positions: Int64s, lengths: Int64s, count: int, length: int, *, padded: bool
) -> dict[str, Any]:
    """Return the bounds of sequences in the flattened batch, for variable-length attention.

    Attention restarts at each row, each document's part and each range of padding. With `padded`, padding
    belongs to the sequence before it: `cu_seqlens_padded` contains the starts of sequences and `cu_seqlens`
    counts their tokens without padding, as Transformer Engine expects.
    """
    rows = np.arange(0, count * length + 1, length)
    if not padded:
        bounds = np.unique(np.concatenate([rows, positions, positions + lengths]))
        sizes = np.diff(bounds)
        return {CU_SEQLENS: bounds.astype(np.int32), "max_seqlen": int(sizes.max(initial=0))}
    bounds = np.unique(np.concatenate([rows, positions]))
    sizes = np.zeros(len(bounds), np.int64)
    sizes[np.searchsorted(bounds, positions) + 1] = lengths
    return {
        CU_SEQLENS: np.cumsum(sizes).astype(np.int32),
        f"{CU_SEQLENS}_padded": bounds.astype(np.int32),
        "max_seqlen": int(np.diff(bounds).max(initial=0)),
    }
