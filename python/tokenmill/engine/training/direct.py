"""Texts straight to merges, for callers that keep a vocabulary of their own."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from tokenmill.engine.training.checkpoint import Checkpoint
from tokenmill.engine.training.counting import Counting, count_all
from tokenmill.engine.training.inputs import open_corpus
from tokenmill.engine.training.merging import Merged, MergeState, merge
from tokenmill.settings.schema import SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.settings.schema import TrainingConfig


def train_merges(
    inputs: Any,
    options: TrainingConfig,
    *,
    threads: int = 1,
    memory_budget: int = 1 << 30,
    tell: Callable[[MergeState], None] | None = None,
    unify: bool = True,
    source: SourceConfig | None = None,
) -> Merged:
    """`train_merges(iter(["low lower"]), TrainingConfig(vocab_size=258))` -> the first two merges."""
    counting = Counting(
        options, threads=threads, memory_budget=memory_budget, spill_dir=tempfile.gettempdir()
    )
    with open_corpus(inputs, source or SourceConfig()) as corpus:
        count_all(counting, corpus.blocks(parts=counting.takes_parts), readers=corpus.readers(threads))
    return merge(counting.finish(), options, checkpoint=Checkpoint(None), tell=tell, unify=unify)
