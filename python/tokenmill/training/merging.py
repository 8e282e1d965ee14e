"""Merge counts into a vocabulary, build its tokenizer, and write the files of a finished training.

Merging runs in short slices, with checkpoints in the folder `.training`. Merges follow from counts and
options alone, so a checkpoint holds only the steps so far and, if counting was expensive, the counts.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tokenmill import _core
from tokenmill._core import Merges, spell
from tokenmill.base import words
from tokenmill.base.durable import digest, publish_bytes, publish_json, scratch_folder
from tokenmill.errors import DatasetError, ResumeError
from tokenmill.settings.schema import SaveFormat, SourceConfig, TrainingConfig
from tokenmill.tokenizer.files.kinds import list_files, publish_files
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Model,
    Recipe,
    build_byte_model,
    guess_roles,
    make_byte_level,
    make_pre_tokenizer,
    number_tokens,
)
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Counted, Counting, count_all, open_corpus

FOLDER = ".training"
CHECKPOINT_SECONDS = 30.0
_SLICE_SECONDS = 0.1
NO_LIMIT = (1 << 32) - 1
# The tie rule by first occurrence. It is not a setting, because saved or added counts have no order.
FIRST_SEEN = "first-seen"
# The tie rule of rustbpe: the lowest pair of ids, where the ids of bytes are their values.
BYTE_VALUES = "byte-values"
TRAINING = "training.json"


class Checkpoint:
    """The saved state of one training; `Checkpoint(None)` saves nothing."""

    def __init__(self, output: Path | None, job: dict[str, Any] | None = None) -> None:
        self._folder = None if output is None else output / FOLDER
        self._job = job or {}
        self._counts: dict[str, int] | None = None
        self.steps: Sequence[int] | None = None  # of the interrupted run

    @property
    def counts(self) -> Path | None:
        """Return the path of the saved counts."""
        return None if self._folder is None else self._folder / "counts.parquet"

    def begin(self, *, resume: bool) -> None:
        """Load the steps of the interrupted run if `resume` and it was the same job, else start over."""
        if self._folder is None:
            return
        path = self._folder / "steps.json"
        if not resume or not path.is_file():
            self.remove()
            return
        from tokenmill.base.records import open_record  # here, since it imports pydantic

        try:
            found = open_record(path.read_bytes(), str(path), "version", 1)
        except (OSError, DatasetError) as error:
            raise ResumeError(f"{error}; run without `resume=True` to start over") from error
        names = sorted(found["job"].keys() | self._job.keys())
        differ = [name for name in names if digest(found["job"].get(name)) != digest(self._job.get(name))]
        if differ:
            raise ResumeError(
                f"{self._folder} belongs to another training: {', '.join(differ)} differ; run without "
                "`resume=True` to start over, or name another output"
            )
        self._counts, self.steps = found["counts"], found["steps"]

    def compare_counts(self, figures: dict[str, int]) -> None:
        """Raise `ResumeError` if the saved steps belong to other counts."""
        if self._counts not in (None, figures):
            raise ResumeError(
                f"{self._folder} belongs to a training on other documents: it counted {self._counts}, but "
                f"now there are {figures}; run without `resume=True` to start over"
            )
        self._counts = figures

    def save(self, steps: Sequence[int]) -> None:
        """Write the steps so far to disk."""
        if self._folder is not None:
            from tokenmill.base.records import encode_record

            self._folder.mkdir(parents=True, exist_ok=True)
            state = {"version": 1, "job": self._job, "counts": self._counts, "steps": steps}
            publish_bytes(self._folder / "steps.json", encode_record(state))

    def remove(self) -> None:
        """Remove the checkpoint."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Merged:
    """A vocabulary: tokens by id, the 256 bytes first; `merges` are pairs of ids in rank order."""

    vocabulary: _core.Tokens
    merges: _core.Merges
    counts: memoryview
    pieces: int
    seconds: float

    @property
    def tokens(self) -> Sequence[bytes]:
        """Return the bytes of every token by id."""
        return cast("Sequence[bytes]", self.vocabulary)


def merge(
    counted: Counted,
    options: TrainingConfig,
    *,
    checkpoint: Checkpoint,
    checkpoint_every: int | None = None,
    tell: Callable[[int], None] | None = None,
    own_tie_break: str | None = None,
) -> Merged:
    """Merge until the vocabulary is full, after replaying the steps of an earlier run.

    `tell` is called with the number of merges. With `own_tie_break`, a rule that is not a setting, two
    splits of the same bytes make two tokens.
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
    if checkpoint.steps:
        import numpy as np  # imported on use: a small training does not need it

        merger.replay(np.array(checkpoint.steps, np.uint32))
    finished, size = False, 64
    saved, saved_at = merger.progress()[0], started
    try:
        while not finished:
            begun, done = time.perf_counter(), merger.progress()[0]
            left = max(1, saved + checkpoint_every - done) if checkpoint_every else size
            finished = merger.advance(min(size, left))
            now, done = time.perf_counter(), merger.progress()[0]
            late = now - saved_at >= CHECKPOINT_SECONDS
            if done - saved >= checkpoint_every if checkpoint_every else late:
                checkpoint.save(merger.steps().tolist())
                saved, saved_at = done, now
            if tell is not None:
                tell(done)
            # Steps get cheaper as merging continues; keep each slice near a tenth of a second.
            size = max(16, min(1 << 16, int(size * min(4.0, _SLICE_SECONDS / max(1e-4, now - begun)))))
    except KeyboardInterrupt:
        checkpoint.save(merger.steps().tolist())
        raise
    vocabulary, merges = merger.tokens(), merger.merges()
    return Merged(vocabulary, merges, merger.counts(), merger.pieces, time.perf_counter() - started)


def train_merges(
    inputs: Any,
    options: TrainingConfig,
    *,
    threads: int = 1,
    memory_budget: int = 1 << 30,
    tell: Callable[[int], None] | None = None,
    own_tie_break: str | None = None,
    source: SourceConfig | None = None,
) -> Merged:
    """Return the merges of `inputs` for a caller that keeps its own vocabulary.

    With `FIRST_SEEN`, blocks are counted one after the other, each by all threads.
    """
    in_order = own_tie_break == FIRST_SEEN
    with scratch_folder(Path(tempfile.gettempdir()), "counts") as folder:
        budget, spill_dir = memory_budget, str(folder)
        counting = Counting(
            options, threads=threads, memory_budget=budget, spill_dir=spill_dir, in_order=in_order
        )
        with open_corpus(inputs, source or SourceConfig()) as corpus:
            count_all(counting, corpus, 1 if in_order else threads)
        counted = counting.finish()
        return merge(counted, options, checkpoint=Checkpoint(None), tell=tell, own_tie_break=own_tie_break)


def build_recipe(merged: Merged, options: TrainingConfig, source: str = "trained") -> Recipe:
    """Return a recipe numbered as by HF's trainer: special tokens, bytes in its order, merged tokens."""
    special = options.special_tokens
    added = tuple(AddedToken(content, token_id) for token_id, content in enumerate(special))
    tokens = merged.vocabulary.prepend([token.encode() for token in special])
    # As in files: tokens outside the alphabet of bytes are not tokens of the model.
    outside = {i: token.encode() for i, token in enumerate(special) if spell(token.encode()) != token}
    if outside:
        kept = (None if i in outside else token for i, token in enumerate(tokens))
        tokens = number_tokens(kept, source)
    roles = guess_roles(added)
    if "eos_token" in roles:
        roles = {"pad_token": roles["eos_token"], **roles}
    merges = merged.merges.shift_ids(len(special))
    return Recipe(
        source=source,
        format="hf",
        model=Model("bytes", tokens, merges=merges, unreachable=tuple(outside.items())),
        added=added,
        pre_tokenizer=make_pre_tokenizer(options.pattern),
        decoder=make_byte_level(use_regex=True),
        config=roles,
    )


def keep_first_tokens(recipe: Recipe, size: int) -> Recipe:
    """Return the tokenizer that training to a smaller `size` gives."""
    model = recipe.model
    assert model is not None, "a trained tokenizer has a model"
    tokens = tuple(model.tokens[:size])
    ids = {token: place for place, token in enumerate(tokens)}
    merges = []
    for left, right in model.merges or ():
        if left >= size or right >= size or (tokens[left] or b"") + (tokens[right] or b"") not in ids:
            break
        merges.append((left, right))
    source = f"{recipe.source}/{size}"
    smaller = replace(model, tokens=number_tokens(tokens, source), merges=Merges(merges))
    return replace(recipe, model=smaller, source=source)


def build_minbpe_recipe(merged: Merged, options: TrainingConfig, source: str = "trained") -> Recipe:
    """Return a recipe numbered as by minbpe: bytes by value, merged tokens, special tokens."""
    renumbered = [token[0] for token in merged.tokens[:256]]
    renumbered += range(256, len(merged.tokens))
    tokens = [*(bytes([byte]) for byte in range(256)), *merged.tokens[256:]]
    merges = [(renumbered[left], renumbered[right]) for left, right in merged.merges]
    added = enumerate(options.special_tokens, start=len(tokens))
    return Recipe(
        source=source,
        format="minbpe",
        model=build_byte_model(zip(tokens, range(len(tokens)), strict=True), merges, source),
        added=tuple(AddedToken(content, token_id) for token_id, content in added),
        pre_tokenizer=make_pre_tokenizer(options.pattern),
    )


def save_all(
    tokenizer: Tokenizer,
    output: Path,
    formats: Iterable[SaveFormat],
    provenance: dict[str, Any],
    minbpe: Callable[[], Recipe],
) -> None:
    """Write every format, then `training.json`; `minbpe` returns the vocabulary with minbpe's ids."""
    files: dict[str, bytes | None] = {}
    for form in formats:
        recipe = minbpe() if form == "minbpe" else tokenizer.recipe
        files |= list_files(recipe, form)
        if form == "minbpe":
            files["tokenizer.vocab"] = "".join(f"{line}\n" for line in format_vocabulary(recipe)).encode()
    output.mkdir(parents=True, exist_ok=True)
    (output / TRAINING).unlink(missing_ok=True)
    publish_files(output, files)
    publish_json(output / TRAINING, {"version": 1, **provenance, "fingerprint": tokenizer.fingerprint})


def format_vocabulary(recipe: Recipe) -> Iterator[str]:
    """Yield the lines of minbpe's `.vocab`: `[t][h] -> [th] 256`."""
    model = recipe.model
    made: dict[bytes, tuple[int, int]] = {}
    tokens = [] if model is None else [token or b"" for token in model.tokens]
    for left, right in (model.merges if model else None) or ():
        made.setdefault(tokens[left] + tokens[right], (left, right))
    for token_id, token in enumerate(tokens):
        name = _show(token)
        if token in made:
            left, right = made[token]
            yield f"[{_show(tokens[left])}][{_show(tokens[right])}] -> [{name}] {token_id}"
        else:
            yield f"[{name}] {token_id}"
    for added in recipe.added:
        yield f"[{added.content}] {added.id}"


def _show(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def summarise(
    options: TrainingConfig, counted: Counted, merged: Merged, tokenizer: Tokenizer, seconds: float
) -> dict[str, Any]:
    """Return the figures of `training.json`."""
    full = len(merged.tokens) >= options.model_tokens
    # One text at a time, as a list: a batch would allocate the full cache of the encoder and import NumPy.
    tokens = sum(len(tokenizer.encode(text, special="text")) for text in counted.sample)
    size = sum(len(text.encode()) for text in counted.sample)
    return {
        "tokenmill": _core.__version__,
        "vocab_size": len(merged.tokens) + len(options.special_tokens),
        "wanted_vocab_size": options.vocab_size,
        "stopped": "vocabulary full" if full else "no pair left that may be merged",
        "merges": len(merged.merges),
        "last_pair_count": merged.counts[-1] if len(merged.counts) else None,
        **counted.figures(),
        "spilled_bytes": counted.spilled_bytes,
        "pieces_merged": merged.pieces,
        "refused": counted.refused,
        "bytes_per_token": round(size / tokens, 4) if tokens else None,
        "sample": "held out" if options.held_out else "of the training texts",
        "seconds": {
            "counting": round(counted.seconds, 3),
            "merging": round(merged.seconds, 3),
            "total": round(seconds, 3),
        },
    }


def format_lines(summary: dict[str, Any]) -> list[str]:
    """Format the summary, a line each."""
    seconds = summary["seconds"]
    times = (f"{stage} {seconds[stage]:.2f} s" for stage in ("counting", "merging", "total"))
    found = [
        f"vocabulary      {summary['vocab_size']:,} tokens, {summary['merges']:,} merges",
        f"stopped         {summary['stopped']}; the last pair occurs {summary['last_pair_count']} times",
        f"read            {summary['documents']:,} documents, {words.size(summary['bytes'])}",
        f"pieces          {summary['pieces']:,}, {summary['unique']:,} of them different",
        f"time            {', '.join(times)}",
    ]
    if summary["spilled_bytes"]:
        found.append(f"spilled         {words.size(summary['spilled_bytes'])} of counts to disk")
    if summary["refused"]:
        refused = ", ".join(f"{reason} {count}" for reason, count in summary["refused"].items())
        found.append(f"refused         {refused}")
    if summary["bytes_per_token"] is not None:
        found.append(f"bytes per token {summary['bytes_per_token']:.2f} on a sample {summary['sample']}")
    return found
