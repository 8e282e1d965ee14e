"""Texts straight to merges, for callers that keep a vocabulary of their own."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from tokenmill.engine.training.checkpoint import Checkpoint
from tokenmill.engine.training.counting import Counting, count_all
from tokenmill.engine.training.merging import Merged, MergeState, merge
from tokenmill.engine.training.texts import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.engine.training.options import TrainOptions


def merges_of(
    texts: Any,
    options: TrainOptions,
    *,
    threads: int = 1,
    memory_budget: int = 1 << 30,
    tell: Callable[[MergeState], None] | None = None,
) -> Merged:
    """`merges_of(["low lower"], TrainOptions(258))` -> the first two merges."""
    counting = Counting(
        options, threads=threads, memory_budget=memory_budget, spill_dir=tempfile.gettempdir()
    )
    count_all(counting, blocks_of(texts))
    return merge(counting.finish(), options, checkpoint=Checkpoint(None), tell=tell)
