"""Batches of one rank in a deterministic order, with a state to resume from.

Ranks take positions of an epoch in turns. After the same number of rows on every rank, the epoch has been
read up to one position, which is the state of the run for any world size. Workers of a rank take turns batch
by batch, as in torch's `DataLoader`, so the number of workers does not change the batches of a rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from tokenmill.base.durable import digest
from tokenmill.base.texts import prefetch as read_ahead
from tokenmill.datasets.local_order import Local, LocalOrder
from tokenmill.datasets.order import Order
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
        batch_size: int,
        *,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        prefetch: int = 0,
        balance: bool = False,
        local: Local | None = None,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; it must be at least 1")
        if prefetch < 0:
            raise ConfigError(f"prefetch is {prefetch}; it must be a number of batches, or 0 for none")
        check_rank(rank, world_size)
        self.source = source
        self.batch_size = batch_size
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        self.prefetch = prefetch
        self.order = make_order(source, None, seed, balance=balance, local=local)
        self.position = 0
        # The state that was loaded last, from which `trace` counts steps.
        self._loaded: Mapping[str, Any] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, from 0."""
        return self.order.epoch

    @property
    def _end(self) -> int:
        step = self.batch_size * self.world_size if self.drop_last else 1
        return find_epoch_end(self.position, len(self.order), step)

    def __len__(self) -> int:
        """Return the number of batches that this rank has left in the epoch."""
        return count_batches(self.position, self._end, self.batch_size, self.rank, self.world_size)

    def __iter__(self) -> Iterator[RowBatch]:
        return self.deliver(self.batches())

    def deliver(self, made: Iterator[T]) -> Iterator[T]:
        """Yield batches made by `batches`, in any process, and advance the position."""
        start, end, order = self.position, self._end, self.order
        try:
            for done, batch in enumerate(made, 1):
                self.position = min(end, start + done * self.batch_size * self.world_size)
                yield batch
        finally:
            # Stop the read-ahead thread of a generator. torch's iterator stops its own workers.
            getattr(made, "close", int)()
        self.order, self.position = order.in_epoch(order.epoch + 1), 0

    def batches(self, worker: int = 0, workers: int = 1, prefetch: int | None = None) -> Iterator[RowBatch]:
        """Return the remaining batches of the epoch for one worker of this rank, without changing state."""
        order, start, end = self.order, self.position, self._end
        stride = self.world_size * self.batch_size

        def make() -> Iterator[RowBatch]:
            for base in range(start + worker * stride, end, workers * stride):
                positions = find_batch(base, end, self.batch_size, self.rank, self.world_size)
                if len(positions):
                    yield self.source.gather(order.rows(positions), order.epoch)

        depth = self.prefetch if prefetch is None else prefetch
        return read_ahead(make(), depth) if depth else make()

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
        order, self.position = restore(state, self.source, self.order)
        self.order, self._loaded = order, state

    def trace(self, step: int) -> list[TracedRow]:
        """Return the rows of one of this rank's steps, with the documents in each.

        Args:
            step: Counted from 0 at the start of this feed or at its loaded state, up to the end of the
                current epoch.

        Returns:
            The rows of the batch, in order. Use `History` for other ranks, or to find the steps of a
            document.

        Raises:
            DatasetError: There is no such step. The message contains the number of steps.
        """
        from tokenmill.datasets.trace import History

        history = History(
            self.source,
            self.batch_size,
            seed=self.order.seed,
            world_size=self.world_size,
            drop_last=self.drop_last,
            balance=self.order.work is not None,
            states=[] if self._loaded is None else [self._loaded],
            from_state=self._loaded is not None,
            local=self.order.local,
        )
        return history.trace(step, rank=self.rank, epochs=self.epoch + 1)


class State(BaseModel):
    """The state of a feed. The checksum detects a corrupt position, which no other check would."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    version: Literal[2]
    epoch: NonNegativeInt
    position: NonNegativeInt
    ends: list[NonNegativeInt] = Field(min_length=1)
    seed: int | None
    balance: bool
    local: tuple[PositiveInt, PositiveInt] | None
    source: dict[str, Any]
    checksum: str

    @model_validator(mode="after")
    def _check(self) -> State:
        if any(a >= b for a, b in pairwise(self.ends)):
            raise ValueError("ends must be rising")
        if digest(self.model_dump(exclude={"checksum"})) != self.checksum:
            raise ValueError("the content does not match its checksum")
        return self


def explain_invalid(error: Exception) -> str:
    """Return the key, the value and the reason of the first error in a pydantic `ValidationError`."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    key, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    if not key or first["type"] == "missing":
        return f"{key}: {reason}".removeprefix(": ")
    return f"{key} is {first['input']!r}: {reason}"


def make_order(
    source: Rows | Mixture,
    ends: list[int] | None,
    seed: int | None,
    *,
    epoch: int = 0,
    balance: bool = False,
    local: Local | None = None,
) -> Order | LocalOrder:
    """Return the order of the rows of a source. Raise `ConfigError` if they cannot be balanced."""
    if local is not None and balance:
        raise ConfigError("balance=True orders all rows: use shuffle=True, not shuffle='local'")
    if local is not None:
        return cast("Rows", source).order_locally(seed, local)
    ends = [len(source)] if ends is None else ends
    if not balance:
        return Order(ends, seed=seed, epoch=epoch)
    measure = getattr(source, "measure_work", None)
    if seed is None or measure is None:
        raise ConfigError("balance=True orders shuffled rows of one dataset: set shuffle=True")
    return Order(ends, seed=seed, epoch=epoch, work=measure)


def restore(state: Any, source: Rows | Mixture, mine: Order | LocalOrder) -> tuple[Order | LocalOrder, int]:
    """Return the order and position of a state. Raise `DatasetError` if it is corrupt or of other data."""
    try:
        given = dict(state)
        if isinstance(given.get("local"), list):  # from JSON
            given["local"] = tuple(given["local"])
        found = State.model_validate(given)
    except (TypeError, ValueError, RecursionError) as error:
        raise DatasetError(
            f"the state of the data is not what state_dict() of this Tokenmill returns: "
            f"{explain_invalid(error)}. Take it from another checkpoint, or start without one"
        ) from None
    then, now = source.as_of(found.source), source.identity()
    if then is None:
        differences = [
            f"{key} is {found.source.get(key)!r} in the state and {now.get(key)!r} here"
            for key in sorted({*found.source, *now})
            if found.source.get(key) != now.get(key)
        ]
        raise DatasetError(
            f"the state belongs to other data: {'; '.join(differences)}. Open the dataset it was saved with, "
            "or start without a state"
        )
    seed, balance = mine.seed, mine.work is not None
    if found.seed != seed:
        raise DatasetError(
            f"the state was saved with seed {found.seed!r}, this reader has {seed!r}: pass the same seed"
        )
    if found.balance != balance:
        raise DatasetError(f"the state was saved with balance={found.balance}: pass the same to batches")
    if (found.local is None) != (mine.local is None):
        saved = "another order" if found.local is None else 'shuffle="local"'
        raise DatasetError(f"the state was saved with {saved}: pass the same shuffle")
    if found.local is not None:
        # Convert through the position in the run, since the number of rows of a stream may be unknown.
        order = make_order(source, None, seed, local=found.local)
        epoch, position = divmod(found.epoch * found.ends[-1] + found.position, max(len(order), 1))
        return order.in_epoch(epoch), position
    if found.ends[-1] != len(then) or found.position > len(then):
        raise DatasetError(
            f"the state is at row {found.position} of {found.ends[-1]}, but its data has {len(then)} rows"
        )
    order = make_order(source, found.ends, seed, epoch=found.epoch, balance=balance)
    return order.extend(len(source)), found.position


def check_rank(rank: int, world_size: int) -> None:
    """Raise `ConfigError` unless `0 <= rank < world_size`."""
    if world_size < 1 or not 0 <= rank < world_size:
        raise ConfigError(f"rank={rank}, world_size={world_size}: rank must be from 0 to world_size - 1")


def find_batch(base: int, end: int, batch_size: int, rank: int, world_size: int) -> NDArray[np.int64]:
    """Return the positions of a rank's batch in the step that begins at `base`."""
    positions = base + rank + world_size * np.arange(batch_size, dtype=np.int64)
    return positions[positions < end]


def count_batches(start: int, end: int, batch_size: int, rank: int, world_size: int) -> int:
    """Return how many batches a rank has in positions `start..end`."""
    rows = max(0, -(-(end - start - rank) // world_size))
    return -(-rows // batch_size)


def find_epoch_end(start: int, total: int, stride: int) -> int:
    """Return the end position of an epoch in which every rank gets the same number of full batches."""
    return start + (total - start) // stride * stride
