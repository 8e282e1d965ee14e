"""The pieces of a corpus as a base tokenizer cuts them, counted within a budget of memory."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tokenmill.base.hardware.machine import measure
from tokenmill.base.texts import Texts
from tokenmill.settings.schema import TrainingConfig
from tokenmill.training.counting import Counting, count_all
from tokenmill.training.counts_file import add_saved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.training.counting import Corpus, Counted

# A SentencePiece-style word: the spaces before it belong to it.
_WORDS = " *[^ ]+| +"


def find_pattern(base: Tokenizer) -> str | None:
    """The pattern that cuts a text as `base` does: a family's name or a regex; None if no single one does."""
    model = base.recipe.model
    if model is not None and model.kind == "chars":
        return _WORDS
    return None if base.family == "chain" else base.family


def count_pieces(
    base: Tokenizer,
    corpus: Corpus,
    counts: Sequence[Any] = (),
    *,
    threads: int | None = None,
    memory_budget: int | None = None,
    elsewhere: Callable[[Counting, TrainingConfig, Corpus], None] | None = None,
) -> Counted:
    """Count what the inputs and saved counts hold, cut as `base` cuts them; `elsewhere` may do the work."""
    machine = measure()
    threads = threads or machine.cores.usable
    pattern = find_pattern(base)
    options = TrainingConfig(
        vocab_size=1 << 20,
        pattern=pattern or TrainingConfig().pattern,
        special_tokens=tuple(base.special_tokens),
    )
    with tempfile.TemporaryDirectory(prefix="tokenmill-counts-") as folder:
        counting = Counting(
            options, threads=threads, memory_budget=memory_budget or machine.memory_budget, spill_dir=folder
        )
        add_saved(counting, options, counts)
        if pattern is None:
            _count_one_by_one(base, corpus, counting)
        elif elsewhere is not None:
            elsewhere(counting, options, corpus)
        else:
            count_all(counting, corpus.read_blocks(), readers=corpus.count_readers(threads))
        return counting.finish()


def _count_one_by_one(base: Tokenizer, corpus: Corpus, counting: Counting) -> None:
    """For a chain of steps that is not a family: the tokenizer itself says where its pieces end."""
    for block in corpus.read_blocks():
        found: Counter[bytes] = Counter()
        for text in block.texts.to_arrow().to_pylist():
            data, start = text.encode(), 0
            for end in base.engine.piece_ends(text, "text") or ():
                found[data[start:end]] += 1
                start = end
        offsets = np.cumsum([0, *map(len, found)], dtype=np.int64)
        pieces = Texts(b"".join(found), offsets)
        counting.add_counts(pieces, np.array(list(found.values()), np.uint64))


def to_batches(counted: Counted) -> Iterator[tuple[pa.Array, NDArray[np.uint64]]]:
    """The counted pieces as Arrow strings, with their counts."""
    for part in range(counted.counts.batches()):
        data, offsets, numbers = counted.counts.batch(part)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        yield pa.Array.from_buffers(pa.large_string(), len(numbers), buffers), numbers
