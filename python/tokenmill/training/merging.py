"""Counts to merges, some steps at a time, so that people see progress and Ctrl-C leaves a checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tokenmill import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from tokenmill.settings.schema import TrainingConfig
    from tokenmill.training.checkpoint import Checkpoint
    from tokenmill.training.counting import Counted

CHECKPOINT_SECONDS = 30.0
_SLICE_SECONDS = 0.1
NO_LIMIT = (1 << 32) - 1
# The rule that asks which piece came first. It is not a setting: counts that are saved, added up or made by
# several hosts do not know.
FIRST_SEEN = "first-seen"


@dataclass(frozen=True, slots=True)
class Merged:
    """The vocabulary: tokens by id, the 256 bytes first; `merges` as pairs of those ids, in rank order."""

    vocabulary: _core.Tokens
    merges: _core.Merges
    counts: np.ndarray[Any, np.dtype[np.uint64]]
    pieces: int
    seconds: float

    @property
    def tokens(self) -> Sequence[bytes]:
        """The bytes of every token, by id: training leaves no holes."""
        return cast("Sequence[bytes]", self.vocabulary)


@dataclass(frozen=True, slots=True)
class MergeState:
    """What a progress callback sees: `MergeState(merges=1200, wanted=31744, memory=…, seconds=…)`."""

    merges: int
    wanted: int
    memory: int
    seconds: float


def merge(
    counted: Counted,
    options: TrainingConfig,
    *,
    checkpoint: Checkpoint,
    steps: np.ndarray[Any, np.dtype[np.uint32]] | None = None,
    checkpoint_every: int | None = None,
    tell: Callable[[MergeState], None] | None = None,
    like_minbpe: bool = False,
) -> Merged:
    """Merge until the vocabulary is full; `steps` of an earlier run are done again first.

    The same bytes are one token whatever the split, in every trainer but minbpe; `like_minbpe` makes two, and
    gives ties to the pair that the texts have first, which needs counts in their order.
    """
    started = time.perf_counter()
    checkpoint.compare_counts(counted.figures())
    merger = _core.PairMerger(
        counted.counts,
        options.model_tokens,
        options.min_frequency,
        options.min_piece_frequency,
        min(options.max_token_length or NO_LIMIT, NO_LIMIT),
        tie_break=FIRST_SEEN if like_minbpe else options.tie_break,
        unify=not like_minbpe,
    )
    if steps is not None and len(steps):
        merger.replay(steps)
    keeper = _Keeper(merger, checkpoint, checkpoint_every)
    wanted = options.model_tokens - 256
    finished, size = False, 64
    try:
        while not finished:
            begun = time.perf_counter()
            finished = merger.advance(size if checkpoint_every is None else min(size, keeper.count_left()))
            keeper.save_if_due()
            now = time.perf_counter()
            if tell is not None:
                done, _, memory = merger.progress()
                tell(MergeState(done, wanted, memory, now - started))
            # Steps get cheaper as merging goes on; keep each slice near a tenth of a second.
            size = max(16, min(1 << 16, int(size * min(4.0, _SLICE_SECONDS / max(1e-4, now - begun)))))
    except KeyboardInterrupt:
        keeper.save()
        raise
    vocabulary, merges = merger.tokens(), merger.merges()
    return Merged(vocabulary, merges, merger.counts(), merger.pieces, time.perf_counter() - started)


class _Keeper:
    """Saves the steps every so many merges, or every half minute."""

    def __init__(self, merger: _core.PairMerger, checkpoint: Checkpoint, every: int | None) -> None:
        self._merger = merger
        self._checkpoint = checkpoint
        self._every = every
        self._saved_merges = merger.progress()[0]
        self._saved_at = time.perf_counter()

    def count_left(self) -> int:
        """Merges until the next checkpoint."""
        done = self._merger.progress()[0] - self._saved_merges
        return max(1, (self._every or 0) - done)

    def save_if_due(self) -> None:
        """Save if it is time."""
        merges = self._merger.progress()[0]
        if self._every is not None:
            due = merges - self._saved_merges >= self._every
        else:
            due = time.perf_counter() - self._saved_at >= CHECKPOINT_SECONDS
        if due:
            self.save()

    def save(self) -> None:
        """Save now."""
        self._checkpoint.save(self._merger.steps())
        self._saved_merges = self._merger.progress()[0]
        self._saved_at = time.perf_counter()
