"""Batches of one rank in a deterministic order, with a state to resume from.

Ranks take positions of an epoch in turns. After the same number of rows on every rank, the epoch has been
read up to one position, which is the state of the run for any world size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import digest
from tokenmill.base.texts import prefetch as read_ahead
from tokenmill.datasets.order import LocalOrder, Order
from tokenmill.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from tokenmill.datasets.mixture import Mixture
    from tokenmill.datasets.rows import Rows
    from tokenmill.datasets.trace import TracedRow

RowBatch = dict[str, Any]
STATE_VERSION = 2
T = TypeVar("T")


class Feed:
    """Batches of one rank. Each `for batch in feed` loop reads to the end of the current epoch.

    Returned by `Rows.batches` and `Mixture.batches`. Resume with `state_dict` and `load_state_dict`.

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
        source: Rows | Mixture,
        order: Order | LocalOrder,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        *,
        drop_last: bool = False,
        prefetch: int = 0,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; it must be at least 1")
        if prefetch < 0:
            raise ConfigError(f"prefetch is {prefetch}; it must be a number of batches, or 0 for none")
        if world_size < 1 or not 0 <= rank < world_size:
            raise ConfigError(f"rank={rank}, world_size={world_size}: rank must be from 0 to world_size - 1")
        self.source = source
        self.batch_size = batch_size
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        self.prefetch = prefetch
        self.order = order
        self.position = 0
        # The order and the position from which `trace` counts steps.
        self.start = self.order, self.position

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, from 0."""
        return self.order.epoch

    @property
    def stride(self) -> int:
        """Rows of all ranks in one step."""
        return self.batch_size * self.world_size

    def find_end(self, start: int) -> int:
        """Return the end of an epoch that is read from a position on."""
        step = self.stride if self.drop_last else 1
        return start + (len(self.order) - start) // step * step

    def find_steps(self, rank: int, start: int) -> range:
        """Return the first position of each step of a rank, from a position to the end of the epoch."""
        return range(start, self.find_end(start) - rank, self.stride)

    def find_batch(self, base: int, rank: int) -> NDArray[np.int64]:
        """Return the positions of a rank's batch in the step that begins at `base`."""
        positions = base + rank + self.world_size * np.arange(self.batch_size, dtype=np.int64)
        return positions[positions < self.find_end(base)]

    def read(self, base: int) -> RowBatch:
        """Return the batch of this rank in the step that begins at `base`."""
        rows = self.order.rows(self.find_batch(base, self.rank))
        return self.source.gather(rows, self.order.epoch)

    def __len__(self) -> int:
        """Return the number of batches that this rank has left in the epoch."""
        return len(self.find_steps(self.rank, self.position))

    def __iter__(self) -> Iterator[RowBatch]:
        batches = map(self.read, self.find_steps(self.rank, self.position))
        return self.deliver(read_ahead(batches, self.prefetch) if self.prefetch else batches)

    def deliver(self, batches: Iterator[T]) -> Iterator[T]:
        """Yield batches that were read in any process, and advance the position."""
        start, end, order = self.position, self.find_end(self.position), self.order
        try:
            for done, batch in enumerate(batches, 1):
                self.position = min(end, start + done * self.stride)
                yield batch
        finally:
            # Stop the read-ahead thread of a generator. torch's iterator stops its own workers.
            getattr(batches, "close", int)()
        self.order, self.position = order.in_epoch(order.epoch + 1), 0

    def to_torch(self, num_workers: int = 0, **options: Any) -> Any:
        """Return a loader of torch tensors over the same batches. `options` are passed to `DataLoader`."""
        from tokenmill.datasets.torch import Loader

        return Loader(self, num_workers, **options)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the whole run: equal on every rank after the same number of batches."""
        state = {
            "version": STATE_VERSION,
            "epoch": self.order.epoch,
            "position": self.position,
            "ends": list(self.order.ends),
            "seed": self.order.seed,
            "balance": self.order.work is not None,
            "local": self.order.local,
            "source": self.source.identity(),
        }
        return state | {"checksum": digest(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a state of any world size, batch size or worker count."""
        self.start = self.order, self.position = restore(state, self.source, self.order)

    def trace(self, step: int) -> list[TracedRow]:
        """Return the rows of one of this rank's steps, with the documents in each.

        Args:
            step: Counted from 0 at the start of this feed or at its loaded state.

        Returns:
            The rows of the batch, in order. Use `History(feed)` for other ranks, or to find the steps of a
            document.
        """
        from tokenmill.datasets.trace import History

        return History(self).trace(step, rank=self.rank)


def restore(state: Any, source: Rows | Mixture, mine: Order | LocalOrder) -> tuple[Order | LocalOrder, int]:
    """Return the order and position of a state. Raise `DatasetError` if it is corrupt or of other data."""
    try:
        saved = dict(state)
        valid = saved.pop("checksum") == digest(saved) and saved["version"] == STATE_VERSION
    except (KeyError, TypeError, ValueError, RecursionError):
        valid = False
    if not valid:
        raise DatasetError(
            "the state of the data is corrupt, or not what state_dict() of this Tokenmill returns. Take it "
            "from another checkpoint, or start without one"
        )
    then, now = saved["source"], source.identity()
    if not source.extends(then):
        differences = [
            f"{key} is {then.get(key)!r} in the state and {now.get(key)!r} here"
            for key in sorted({*then, *now})
            if then.get(key) != now.get(key)
        ]
        raise DatasetError(
            f"the state belongs to other data: {'; '.join(differences)}. Open the dataset it was saved with, "
            "or start without a state"
        )
    for name, before, here in (
        ("seed", saved["seed"], mine.seed),
        ("balance", saved["balance"], mine.work is not None),
        ("local order", saved["local"] is not None, mine.local is not None),
    ):
        if before != here:
            raise DatasetError(
                f"the state was saved with {name} {before!r}, this reader has {here!r}: pass the same "
                "shuffle, seed and balance to batches"
            )
    if isinstance(mine, LocalOrder):
        if (before := then.get("shards")) not in (None, now.get("shards")):
            raise DatasetError(
                f"the dataset has grown since the state was saved, which moves every row of a local order: "
                f"open it with shards={before} to read on as before, or start without a state"
            )
        order = LocalOrder(mine.layout, seed=mine.seed, local=saved["local"])
        # Convert through the position in the run, since the number of rows of a stream may be unknown.
        epoch, position = divmod(saved["epoch"] * saved["ends"][-1] + saved["position"], max(len(order), 1))
        return order.in_epoch(epoch), position
    # Rows added since then come after the others.
    ends = sorted({*saved["ends"], len(source)})
    return Order(ends, seed=mine.seed, epoch=saved["epoch"], work=mine.work), saved["position"]
