"""Batches in order: what a training loop iterates over, with a state that says which row is next.

A `Feed` needs only NumPy. It deals an epoch out to ranks, gathers each batch into fresh arrays, and
counts what it has handed over; the torch adapter stands on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tokenmill.base.prefetch import prefetch as read_ahead
from tokenmill.datasets.reader.order import Order
from tokenmill.datasets.reader.state import make_state, read_state
from tokenmill.datasets.reader.turns import Turns, advance, find_epoch_end
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.datasets.reader.rows import Rows
    from tokenmill.datasets.trace.traced import TracedRow

RowBatch = dict[str, Any]
T = TypeVar("T")


class RowSource(Protocol):
    """What can be fed: rows of a dataset, or a mixture of them."""

    def __len__(self) -> int: ...

    def gather(self, rows: NDArray[np.int64], epoch: int = 0) -> RowBatch:
        """These rows, as one array per column."""

    @property
    def sources(self) -> list[Rows]:
        """The datasets whose rows these are."""

    def number(self, source: int) -> int:
        """What a source is called in batches and traces."""

    def locate(self, rows: NDArray[np.int64], epoch: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of the sources each row is of, and its number there."""

    def find(self, source: int, rows: NDArray[np.int64], epoch: int = 0) -> NDArray[np.int64]:
        """Where rows of a source are among these rows, as often as they come."""

    def as_of(self, identity: Mapping[str, Any]) -> RowSource:
        """These rows as they were when their identity was this one; see `grew_from`."""

    def identity(self) -> dict[str, Any]:
        """What decides the rows and their numbers, as plain JSON values."""

    def grew_from(self, identity: Mapping[str, Any]) -> bool:
        """True when these rows are the rows of `identity` with others added at the end."""

    @property
    def keeps_order(self) -> bool:
        """True when the order is part of what was asked for, as in a mixture."""


class Feed:
    """Batches of one rank: `for batch in feed` reads the rest of the epoch; the next loop, the next one.

    Made by `Rows.batches` and `Mixture.batches`; `state_dict` and `load_state_dict` let a run go on.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> feed = dataset.rows(context_length=4).batches(2, shuffle=True, seed=7)
    >>> [batch["input_ids"].shape for batch in feed]
    [(2, 4), (2, 4)]
    >>> feed.epoch
    1
    """

    def __init__(
        self,
        source: RowSource,
        batch_size: int,
        *,
        seed: int | None = None,
        turns: Turns | None = None,
        drop_last: bool = False,
        prefetch: int = 0,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; it must be at least 1")
        if prefetch < 0:
            raise ConfigError(f"prefetch is {prefetch}; it must be a number of batches, or 0 for none")
        self.source = source
        self.batch_size = batch_size
        self.turns = turns or Turns()
        self.drop_last = drop_last
        self.prefetch = prefetch
        self.order = Order([len(source)], seed=None if source.keeps_order else seed)
        self.position = 0
        # Where this feed began, which its steps count from.
        self._begun: Mapping[str, Any] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, from 0."""
        return self.order.epoch

    @property
    def _end(self) -> int:
        total = len(self.order)
        if not self.drop_last:
            return total
        return find_epoch_end(self.position, total, self.batch_size, self.turns.world_size)

    def __len__(self) -> int:
        """How many batches this rank has left in the epoch."""
        return self.turns.count(self.position, self._end, self.batch_size)

    def __iter__(self) -> Iterator[RowBatch]:
        return self.deliver(self.batches())

    def deliver(self, made: Iterator[T]) -> Iterator[T]:
        """Hand over what `batches` made, here or in other processes, and count it."""
        start, end, order = self.position, self._end, self.order
        try:
            for done, batch in enumerate(made, 1):
                self.position = advance(start, end, done, self.batch_size, self.turns.world_size)
                yield batch
        finally:
            # A generator may have a thread behind it; torch's iterator looks after its own workers.
            getattr(made, "close", int)()
        self.order, self.position = order.in_epoch(order.epoch + 1), 0

    def batches(self, turns: Turns | None = None, prefetch: int | None = None) -> Iterator[RowBatch]:
        """The batches that are left of the epoch; changes no state."""
        order, depth = self.order, self.prefetch if prefetch is None else prefetch
        made = (
            self.source.gather(order.rows(positions), order.epoch)
            for positions in (turns or self.turns).batches(self.position, self._end, self.batch_size)
        )
        return read_ahead(made, depth) if depth else made

    def to_torch(self, num_workers: int = 0, **options: Any) -> Any:
        """A loader of torch tensors over the same batches; see `dataset.torch.Loader`."""
        from tokenmill.datasets.reader.torch import Loader

        return Loader(self, num_workers, **options)

    def state_dict(self) -> dict[str, Any]:
        """Where the whole run is: equal on every rank that has had the same number of batches."""
        return make_state(self.source, self.order, self.position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, of any world size, batch size or worker count."""
        self.order, self.position = read_state(state, self.source, self.order.seed)
        self._begun = state

    def trace(self, step: int) -> list[TracedRow]:
        """The rows of one of this rank's steps, and the documents in each.

        Args:
            step: Counted from 0, where this feed began or where its loaded state was saved; up to the end
                of the epoch that it is in.

        Returns:
            A row for each of the batch, in its order. `tokenmill.History` also knows the other ranks, and
            finds the steps that a document was in.

        Raises:
            DatasetError: There is no such step; the message says how many there are.
        """
        from tokenmill.datasets.trace.history import History

        history = History(
            self.source,
            self.batch_size,
            seed=self.order.seed,
            world_size=self.turns.world_size,
            drop_last=self.drop_last,
            states=[] if self._begun is None else [self._begun],
            from_state=self._begun is not None,
        )
        return history.trace(step, rank=self.turns.rank, epochs=self.epoch + 1)
