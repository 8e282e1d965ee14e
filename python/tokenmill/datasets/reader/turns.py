"""Who reads which position: an epoch dealt out to ranks and to their worker processes.

Ranks take turns, so after the same number of rows on every rank the epoch has been read exactly up to
one position. That position is the whole state of a run: it does not depend on the world size, and a
run may go on from it with another one. Workers of a rank take turns batch by batch, which is the
order in which torch's `DataLoader` asks them, so the worker count never changes what a rank sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Turns:
    """The turns of one reader: `rank` of `world_size`, and inside it `worker` of `workers`."""

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        for index, count, names in (
            (self.rank, self.world_size, ("rank", "world_size")),
            (self.worker, self.workers, ("worker", "workers")),
        ):
            if count < 1 or not 0 <= index < count:
                found = f"{names[0]}={index}, {names[1]}={count}"
                raise ConfigError(f"{found}: {names[0]} must be from 0 to {names[1]} - 1")

    def batches(self, start: int, total: int, batch_size: int) -> Iterator[NDArray[np.int64]]:
        """The positions of each batch from `start` on; together all readers cover `start..total` once."""
        stride = self.world_size * batch_size
        offsets = self.rank + self.world_size * np.arange(batch_size, dtype=np.int64)
        for base in range(start + self.worker * stride, total, self.workers * stride):
            positions = base + offsets
            if positions[-1] >= total:
                positions = positions[positions < total]
            if len(positions):
                yield positions

    def count(self, start: int, total: int, batch_size: int) -> int:
        """How many batches this rank has left, over all its workers."""
        mine = max(0, -(-(total - start - self.rank) // self.world_size))
        return -(-mine // batch_size)


def find_epoch_end(start: int, total: int, batch_size: int, world_size: int) -> int:
    """Where an epoch ends for readers that all want the same number of full batches."""
    stride = batch_size * world_size
    return start + (total - start) // stride * stride


def advance(start: int, total: int, batches: int, batch_size: int, world_size: int) -> int:
    """The position of the whole run once every rank has had `batches` batches since `start`."""
    return min(total, start + batches * batch_size * world_size)
