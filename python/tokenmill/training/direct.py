"""Texts straight to merges, for callers that keep a vocabulary of their own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.hardware.memory import measure_address_room
from tokenmill.base.scratch import scratch_folder
from tokenmill.settings.schema import SourceConfig
from tokenmill.training.checkpoint import Checkpoint
from tokenmill.training.counting import Counting, count_all
from tokenmill.training.inputs import open_corpus
from tokenmill.training.merging import Merged, MergeState, merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.settings.schema import TrainingConfig

# Counting a block and starting the core; and what merging needs for each byte of counts that is held.
LEAST = 64 << 20
PER_HELD = 8


def check_room(size: int) -> None:
    """Raise `MemoryError` if the process may not map `size` more bytes."""
    room = measure_address_room()
    if room is not None and room < size:
        raise MemoryError(
            f"training needs about {size / 1e6:.0f} MB more, and the limit of this process (ulimit -v) "
            f"leaves {room / 1e6:.0f} MB; raise it, or train on less"
        )


def train_merges(
    inputs: Any,
    options: TrainingConfig,
    *,
    threads: int = 1,
    memory_budget: int = 1 << 30,
    tell: Callable[[MergeState], None] | None = None,
    like_minbpe: bool = False,
    source: SourceConfig | None = None,
) -> Merged:
    """`train_merges(iter(["low lower"]), TrainingConfig(vocab_size=259))` -> the first two merges.

    Where the process has a limit of its own (`ulimit -v`), one thread counts, what is held is bounded by it,
    and a corpus that still needs more is a `MemoryError` here, before an allocation would end the process.
    `like_minbpe` is for `merge`; its blocks are counted one after the other, each by all threads.
    """
    room = measure_address_room()
    if room is not None:
        threads, memory_budget = 1, min(memory_budget, room // 8)
        check_room(LEAST)
    with scratch_folder(Path(tempfile.gettempdir()), "counts") as folder:
        counting = Counting(
            options,
            threads=threads,
            memory_budget=memory_budget,
            spill_dir=str(folder),
            in_order=like_minbpe,
        )
        with open_corpus(inputs, source or SourceConfig()) as corpus:
            readers = 1 if like_minbpe else corpus.count_readers(threads)
            count_all(counting, corpus.read_blocks(parts=counting.takes_parts), readers=readers)
        check_room(PER_HELD * counting.totals()[3])
        counted = counting.finish()
        return merge(counted, options, checkpoint=Checkpoint(None), tell=tell, like_minbpe=like_minbpe)
