"""Merge counts into a vocabulary in short slices, with checkpoints in the folder `.training`.

Merges follow from counts and options alone, so a checkpoint holds only the steps so far and, if counting was
expensive, the counts.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tokenmill import _core
from tokenmill.base.durable import digest, publish_bytes, publish_json, scratch_folder
from tokenmill.errors import ResumeError
from tokenmill.settings.schema import SourceConfig
from tokenmill.training.counting import Counting, count_all, open_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenmill.settings.schema import TrainingConfig
    from tokenmill.training.counting import Counted


FOLDER = ".training"
_JOB, _STEPS, _COUNTS = "job.json", "steps.npy", "counts.parquet"


class Checkpoint:
    """The saved state of one training; `Checkpoint(None)` saves nothing."""

    def __init__(self, output: Path | None, job: dict[str, Any] | None = None) -> None:
        self.folder = None if output is None else output / FOLDER
        self._job = job or {}
        self._counts: dict[str, int] | None = None

    @property
    def counts(self) -> Path | None:
        """Return the path of the saved counts."""
        return None if self.folder is None else self.folder / _COUNTS

    def begin(self, *, resume: bool) -> np.ndarray[Any, np.dtype[np.uint32]] | None:
        """Return the steps of the interrupted run if `resume` and it was the same job, else start over."""
        if self.folder is None:
            return None
        if not resume or not (self.folder / _JOB).is_file():
            self.remove()
            return None
        try:
            found = json.loads((self.folder / _JOB).read_text(encoding="utf-8"))
            self._refuse_other(found["job"])
            self._counts = found.get("counts")
            path = self.folder / _STEPS
            return _unpack(path.read_bytes()) if path.is_file() else np.empty(0, np.uint32)
        except ResumeError:
            raise
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResumeError(
                f"{self.folder} is damaged ({error}); run without --resume to start over"
            ) from error

    def _refuse_other(self, found: dict[str, Any]) -> None:
        names = sorted(found.keys() | self._job.keys())
        differ = [name for name in names if digest(found.get(name)) != digest(self._job.get(name))]
        if differ:
            raise ResumeError(
                f"{self.folder} belongs to another training: {', '.join(differ)} differ; run without "
                "--resume to start over, or name another output"
            )

    def compare_counts(self, figures: dict[str, int]) -> None:
        """Raise `ResumeError` if the saved steps belong to other counts."""
        if self._counts not in (None, figures):
            raise ResumeError(
                f"{self.folder} belongs to a training on other documents: it counted {self._counts}, but "
                f"now there are {figures}; run without --resume to start over"
            )
        self._counts = figures

    def open(self) -> None:
        """Record which training this is."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            publish_json(self.folder / _JOB, {"version": 1, "job": self._job, "counts": self._counts})

    def save(self, steps: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
        """Write the steps so far to disk."""
        if self.folder is not None:
            if not (self.folder / _JOB).is_file():
                self.open()
            publish_bytes(self.folder / _STEPS, _pack(steps))

    def remove(self) -> None:
        """Remove the checkpoint."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _pack(steps: np.ndarray[Any, np.dtype[np.uint32]]) -> bytes:
    """Return an npy file followed by its checksum."""
    buffer = io.BytesIO()
    np.save(buffer, steps, allow_pickle=False)
    return buffer.getvalue() + hashlib.sha256(buffer.getvalue()).digest()


def _unpack(data: bytes) -> np.ndarray[Any, np.dtype[np.uint32]]:
    content, checksum = data[:-32], data[-32:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError("the checksum of the merges so far does not match")
    steps: np.ndarray[Any, np.dtype[np.uint32]] = np.load(io.BytesIO(content), allow_pickle=False)
    return steps


CHECKPOINT_SECONDS = 30.0
_SLICE_SECONDS = 0.1
NO_LIMIT = (1 << 32) - 1
# The tie rule by first occurrence. It is not a setting, because saved or added counts have no order.
FIRST_SEEN = "first-seen"
# The tie rule of rustbpe: the lowest pair of ids, where the ids of bytes are their values.
BYTE_VALUES = "byte-values"


@dataclass(frozen=True, slots=True)
class Merged:
    """A vocabulary: tokens by id, the 256 bytes first; `merges` are pairs of ids in rank order."""

    vocabulary: _core.Tokens
    merges: _core.Merges
    counts: np.ndarray[Any, np.dtype[np.uint64]]
    pieces: int
    seconds: float

    @property
    def tokens(self) -> Sequence[bytes]:
        """Return the bytes of every token by id."""
        return cast("Sequence[bytes]", self.vocabulary)


@dataclass(frozen=True, slots=True)
class MergeState:
    """The progress that a callback receives."""

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
    own_tie_break: str | None = None,
) -> Merged:
    """Merge until the vocabulary is full, after replaying the `steps` of an earlier run.

    With `own_tie_break`, a rule that is not a setting, two splits of the same bytes make two tokens.
    """
    started = time.perf_counter()
    checkpoint.compare_counts(counted.figures())
    merger = _core.PairMerger(
        counted.counts,
        options.model_tokens,
        options.min_frequency,
        options.min_piece_frequency,
        min(options.max_token_length or NO_LIMIT, NO_LIMIT),
        tie_break=own_tie_break or options.tie_break,
        unify=own_tie_break is None,
    )
    if steps is not None and len(steps):
        merger.replay(steps)
    wanted, finished, size = options.model_tokens - 256, False, 64
    saved, saved_at = merger.progress()[0], started
    try:
        while not finished:
            begun, (done, _, _) = time.perf_counter(), merger.progress()
            left = max(1, saved + checkpoint_every - done) if checkpoint_every else size
            finished = merger.advance(min(size, left))
            now, (done, _, memory) = time.perf_counter(), merger.progress()
            late = now - saved_at >= CHECKPOINT_SECONDS
            if done - saved >= checkpoint_every if checkpoint_every else late:
                checkpoint.save(merger.steps())
                saved, saved_at = done, now
            if tell is not None:
                tell(MergeState(done, wanted, memory, now - started))
            # Steps get cheaper as merging continues; keep each slice near a tenth of a second.
            size = max(16, min(1 << 16, int(size * min(4.0, _SLICE_SECONDS / max(1e-4, now - begun)))))
    except KeyboardInterrupt:
        checkpoint.save(merger.steps())
        raise
    vocabulary, merges = merger.tokens(), merger.merges()
    return Merged(vocabulary, merges, merger.counts(), merger.pieces, time.perf_counter() - started)


def train_merges(
    inputs: Any,
    options: TrainingConfig,
    *,
    threads: int = 1,
    memory_budget: int = 1 << 30,
    tell: Callable[[MergeState], None] | None = None,
    own_tie_break: str | None = None,
    source: SourceConfig | None = None,
) -> Merged:
    """Return the merges of `inputs` for a caller that keeps a vocabulary of its own.

    With `FIRST_SEEN`, blocks are counted one after the other, each by all threads.
    """
    in_order = own_tie_break == FIRST_SEEN
    with scratch_folder(Path(tempfile.gettempdir()), "counts") as folder:
        counting = Counting(
            options,
            threads=threads,
            memory_budget=memory_budget,
            spill_dir=str(folder),
            in_order=in_order,
        )
        with open_corpus(inputs, source or SourceConfig()) as corpus:
            readers = 1 if in_order else corpus.count_readers(threads)
            count_all(counting, corpus.read_blocks(parts=counting.takes_parts), readers=readers)
        counted = counting.finish()
        return merge(counted, options, checkpoint=Checkpoint(None), tell=tell, own_tie_break=own_tie_break)
