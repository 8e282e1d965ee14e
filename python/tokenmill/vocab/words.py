"""Express counted pieces in the tokens of a base vocabulary, for continued training."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tokenmill.base.texts import Texts
from tokenmill.errors import TokenizerError
from tokenmill.settings.schema import ExecutionConfig, TrainingConfig
from tokenmill.tokenizer.files.hf import walk
from tokenmill.tokenizer.files.sentencepiece import MARKER, TO_MARKER
from tokenmill.tokenizer.recipe import Recipe, make_byte_level
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Corpus, Counted, Counting, count_all
from tokenmill.training.counts_file import add_saved


def check_base(base: Tokenizer) -> None:
    """Raise `TokenizerError` with the reason if the merges of `base` cannot be replayed by the core."""
    if base.recipe.model is None or not base.engine.native:
        raise TokenizerError(
            f"{base.source} cannot be extended or trimmed: {base.strategy.reason}; expected a byte-level or "
            "SentencePiece-style BPE that the native engine runs"
        )


def check_text_kept(base: Tokenizer) -> None:
    """Raise `TokenizerError` if `base` changes texts before it encodes them: new tokens would not be used."""
    for step in walk(base.recipe.normalizer):
        kind = step.get("type")
        marks = kind == "Prepend" or (kind == "Replace" and step.get("content") == MARKER)
        if kind != "NFC" and not marks:
            raise TokenizerError(
                f"{base.source} cannot be extended: its normalizer {kind} changes text before encoding, "
                "so tokens learned from the original text would never be used; expected no normalizer, or NFC"
            )


def build_piece_tokenizer(base: Tokenizer) -> Tokenizer:
    """Return a tokenizer of the model alone, which takes every text as one piece."""
    model = base.recipe.model
    assert model is not None, "check_base comes first"
    spaced = model.kind == "chars"
    recipe = Recipe(
        source=base.source,
        format="hf",
        model=model,
        # A model of characters still needs the marker for a space.
        normalizer=TO_MARKER if spaced else None,
        pre_tokenizer=None if spaced else make_byte_level(use_regex=False),
    )
    return Tokenizer(recipe, "native")


@dataclass(frozen=True)
class Words:
    """Distinct pieces as ids, `ids[offsets[i]:offsets[i + 1]]`, each with its count."""

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    counts: NDArray[np.uint64]

    @classmethod
    def encode(cls, pieces: Tokenizer, batches: Iterable[tuple[pa.Array, NDArray[np.uint64]]]) -> Words:
        """Encode counted pieces, each alone, with what `build_piece_tokenizer` gave."""
        ids, lengths, counts = [], [], []
        for texts, numbers in batches:
            batch = pieces.encode_batch(texts, special="text")
            ids.append(batch.ids.astype(np.uint32, copy=False))
            lengths.append(np.diff(batch.offsets))
            counts.append(numbers)
        return cls(
            np.concatenate([np.empty(0, np.uint32), *ids]),
            np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64),
            np.concatenate([np.empty(0, np.uint64), *counts]),
        )

    def list_pairs(self) -> NDArray[np.uint32]:
        """Return the distinct pairs of ids that are adjacent in a piece."""
        home = np.repeat(np.arange(len(self.counts)), np.diff(self.offsets))
        inside = home[:-1] == home[1:]
        left, right = self.ids[:-1][inside].astype(np.uint64), self.ids[1:][inside]
        joined = np.unique(left << np.uint64(32) | right)
        halves = np.stack([joined >> np.uint64(32), joined & np.uint64(0xFFFFFFFF)], axis=1)
        return np.asarray(halves, np.uint32)


def spell_tokens(base: Tokenizer) -> list[bytes]:
    """Return the text of each id of the model, empty for other ids.

    The marker stays. Byte tokens never merge with strings and are left out.
    """
    model = base.recipe.model
    assert model is not None, "check_base comes first"
    table = [b""] * base.vocab_size
    for token_id, token in enumerate(model.tokens):
        if token is not None:
            table[token_id] = token
    if model.byte_fallback:
        spelled = {f"<0x{byte:02X}>".encode(): bytes([0xFF, byte]) for byte in range(256)}
        table = [spelled.get(token, token) for token in table]
    return table


def count_pieces(
    base: Tokenizer, corpus: Corpus, execution: ExecutionConfig, counts: Sequence[Any] = ()
) -> Counted:
    """Count the pieces of inputs and saved counts, split as `base` does."""
    model, threads = base.recipe.model, execution.threads or 1
    # A SentencePiece-style word includes the spaces before it. A chain of steps is not a single pattern.
    pattern = " *[^ ]+| +" if model is not None and model.kind == "chars" else base.family
    is_chain = pattern == "chain"
    options = TrainingConfig(
        vocab_size=1 << 20,
        pattern=TrainingConfig().pattern if is_chain else pattern,
        special_tokens=tuple(base.special_tokens),
    )
    budget = execution.memory_budget or 256 << 20
    with tempfile.TemporaryDirectory(prefix="tokenmill-counts-") as folder:
        counting = Counting(options, threads=threads, memory_budget=budget, spill_dir=folder)
        add_saved(counting, options, counts)
        if is_chain:
            _count_one_by_one(base, corpus, counting)
        else:
            count_all(counting, corpus, threads)
        return counting.finish()


def _count_one_by_one(base: Tokenizer, corpus: Corpus, counting: Counting) -> None:
    """Count the pieces of a chain of steps with the tokenizer itself."""
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
    """Yield the counted pieces as Arrow strings, with their counts."""
    for part in range(counted.counts.batches()):
        data, offsets, numbers = counted.counts.batch(part)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        yield pa.Array.from_buffers(pa.large_string(), len(numbers), buffers), numbers
