"""Open a finished dataset: memory-mapped, in milliseconds, from any number of processes at once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.formats.format import find_format, list_formats
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.ledger.splits import TRAINING, VALIDATION
from tokenmill.datasets.reader.rows import Rows, Tail
from tokenmill.datasets.reader.shards import Shards
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.sources.stores import is_remote, join_address

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

    from tokenmill.datasets.formats.format import Format
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.store.cache import ShardCache


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open a finished dataset, from any number of processes at once.

    >>> import tokenmill
    >>> made = tokenmill.prepare(dataset=["a text"], tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> tokenmill.open("out")[0].tolist() == made[0].tolist()
    True

    Args:
        path: A directory, or a URL such as `s3://bucket/dataset`, which is opened through a cache: shards
            are fetched when they are read.

    Returns:
        The dataset; no token is read yet.

    Raises:
        DatasetError: There is none, or it is unfinished, damaged or of a newer version.
    """
    if is_remote(path):
        from tokenmill.datasets.store.cache import open_cached

        manifest, cache = open_cached(str(path))
        return Dataset(cache.root, manifest, cache)
    root = Path(path)
    dataset = Dataset(root, load_manifest(root))
    dataset.shards.check_sizes()
    return dataset


class Dataset:
    """The documents of a finished dataset; `tokenmill.open` and `tokenmill.prepare` give one.

    >>> import tokenmill
    >>> texts = ["one text", "another text"]
    >>> dataset = tokenmill.prepare(dataset=texts, tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> len(dataset), dataset.num_tokens, str(dataset.dtype)
    (2, 16, 'uint16')
    >>> tokenizer.decode(dataset[1], skip_special_tokens=True)
    'another text'
    >>> dataset.rows(context_length=4)[0].shape
    (4,)
    """

    def __init__(self, path: Path, manifest: Manifest, cache: ShardCache | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self.shards = Shards(path, manifest, cache)

    # A copy in another process maps the files anew, and sees the manifest that this one saw even if the
    # dataset has grown in the meantime.
    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.path, self.manifest, self.shards.cache)

    def __repr__(self) -> str:
        size = f"documents={len(self):,}, tokens={self.num_tokens:,}"
        return f"Dataset({self.address!r}, {size}, dtype={self.dtype})"

    @property
    def address(self) -> str:
        """Where the dataset is: its directory, or the URL that `path` is a cache of."""
        cache = self.shards.cache
        return cache.store.address if cache is not None else str(self.path)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the token ids on disk."""
        return self.shards.dtype

    @property
    def num_documents(self) -> int:
        """Documents in the dataset."""
        return self.shards.document_starts[-1]

    @property
    def num_tokens(self) -> int:
        """Token ids in the dataset, padding included."""
        return self.shards.num_tokens

    @property
    def vocab_size(self) -> int:
        """The tokenizer's vocabulary size; every id is below it."""
        return self.manifest.tokenizer.vocab_size

    @cached_property
    def content_hash(self) -> str:
        """One hash of everything in the shards."""
        return self.manifest.content_hash

    def __len__(self) -> int:
        return self.num_documents

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> NDArray[Any]:
        """The token ids of one document; for a `stream` dataset without a copy."""
        shard, segments = self._locate(index)
        tokens = self.shards.tokens(shard)
        if len(segments) == 1:
            _, _, position, length = segments[0].tolist()
            return tokens[position : position + length]
        return _join(tokens, segments)

    def _locate(self, index: int) -> tuple[int, NDArray[np.int64]]:
        """The shard of a document, and its stretches: (document, start, position, length), in order."""
        self._require_mappable()
        total = self.num_documents
        if index < 0:
            index += total
        if not 0 <= index < total:
            raise IndexError(f"document {index} is outside 0..{total - 1}")
        shard, local = self.shards.locate_document(index)
        entry = self.manifest.shards[shard]
        if self.manifest.layout == "documents":
            offsets = self.shards.offsets(entry)
            start, end = int(offsets[local]), int(offsets[local + 1])
            return shard, np.array([[local, 0, start, end - start]])
        segments = self.shards.segments(entry)
        chosen = segments[segments[:, 0] == np.uint64(local)].astype(np.int64)
        return shard, chosen[np.argsort(chosen[:, 1], kind="stable")]

    @property
    def has_loss_mask(self) -> bool:
        """Whether the dataset says which of its tokens are learned, as one of conversations does."""
        return self.shards.masked

    def loss_mask(self, index: int) -> NDArray[np.bool_]:
        """Which tokens of one document are learned; of a dataset of texts, all of them."""
        shard, segments = self._locate(index)
        if not self.shards.masked:
            return np.ones(len(self[index]), bool)
        first = self.shards.token_starts[shard]
        return _join(self.shards.read_learned(first, self.shards.entries[shard].tokens), segments)

    def rows(
        self,
        context_length: int | None = None,
        overlap: int | None = None,
        *,
        tail: Tail = "drop",
        pad_id: int | None = None,
        columns: Sequence[str] = (),
        dtype: DTypeLike = None,
    ) -> Rows:
        """Rows of tokens: cut now from a `stream` dataset, or as they were packed.

        Args:
            context_length: Tokens in a row; left out for rows that were packed.
            overlap: Tokens that a row shares with the one before it.
            tail: What becomes of a last, shorter row: "drop" or "pad".
            pad_id: What fills it; the dataset's padding or EOS id if left out.
            columns: Any of `attention_mask`, `labels`, `loss_mask`, `position_ids`, `document_ids`,
                `cu_seqlens`.
            dtype: What batches hold; rows themselves stay as they are on disk.

        Returns:
            A sequence of rows, which maps the files and copies nothing.

        Raises:
            ConfigError: The lengths contradict each other, or the rows that were packed.
            DatasetError: The dataset is in a format that is not read here.
        """
        self._require_mappable()
        packing = self.manifest.packing
        if self.manifest.layout == "rows":
            _require_stored(packing.context_length, context_length, overlap, packing.mode)
            return Rows(
                self, packing.context_length or 1, pad_id=packing.pad_id, columns=columns, dtype=dtype
            )
        self._check_cut(context_length, overlap or 0, tail)
        pad = (
            pad_id if pad_id is not None else packing.pad_id if packing.pad_id is not None else packing.eos_id
        )
        if tail == "pad" and pad is None:
            raise ConfigError(
                "tail='pad' needs a pad_id: the dataset was prepared without a padding or EOS token"
            )
        return Rows(
            self, context_length or 1, overlap or 0, tail=tail, pad_id=pad, columns=columns, dtype=dtype
        )

    def _check_cut(self, context_length: int | None, overlap: int, tail: str) -> None:
        if context_length is None:
            raise ConfigError(f"{self.path} holds documents, not rows: call rows(context_length=...)")
        if context_length < 1:
            raise ConfigError(f"context_length is {context_length}; it must be at least 1")
        if not 0 <= overlap < context_length:
            raise ConfigError(
                f"overlap is {overlap}; it must be from 0 to context_length - 1 = {context_length - 1}"
            )
        if tail not in ("drop", "pad"):
            raise ConfigError(f"tail is {tail!r}; it must be 'drop' or 'pad'")
        if context_length > self.num_tokens and tail == "drop":
            raise ConfigError(
                f"context_length is {context_length:,}, but {self.path} has only {self.num_tokens:,} tokens: "
                "not a single row can be cut. Use a smaller context_length, or tail='pad'"
            )

    def _require_mappable(self) -> None:
        found = find_format(self.manifest.format)
        if not found.mapped:
            raise DatasetError(
                f"{self.path} is in the format {found.name}, which {found.read_by} reads. "
                f"For random access here: {self._suggest_remedy(found)}"
            )

    def _suggest_remedy(self, found: Format) -> str:
        """What makes a mapped dataset out of this one; rows in another format have lost their documents."""
        mapped = next(other.name for other in list_formats() if other.mapped)
        if found.reader is None or self.manifest.layout == "rows":
            return f"prepare it again: tokenmill prepare INPUTS --output NEW_DIR --format {mapped}"
        return f"tokenmill dataset convert {self.path} NEW_DIR --format {mapped}"

    def split(self, name: str) -> Dataset:
        """The dataset beside this one of that name, such as `"validation"`; `"training"` is this one.

        Raises:
            DatasetError: There is none; it is made by `prepare(..., validation="0.5%")`.
        """
        if name in (TRAINING, "train"):
            return self
        try:
            return open_dataset(join_address(self.address, name))
        except DatasetError as error:
            raise DatasetError(
                f"{self.address.rstrip('/')} has no split {name!r} ({error}); `tokenmill prepare "
                f"--validation 0.5%` makes one called {VALIDATION}"
            ) from None

    def to_hf(self) -> Any:
        """A Hugging Face `datasets.Dataset` of the documents; `rows(...).to_hf()` gives one of rows."""
        from tokenmill.datasets.reader.hf import documents_to_hf

        self._require_mappable()
        return documents_to_hf(self)


def _require_stored(stored: int | None, context_length: int | None, overlap: int | None, mode: str) -> None:
    for name, asked, have in (("context_length", context_length, stored), ("overlap", overlap, None)):
        if asked is not None and asked != have:
            raise ConfigError(
                f"{name}={asked}: this dataset was packed with mode {mode!r} into rows of {stored} "
                "and cannot be cut again. Leave it out, or prepare with packing 'stream', cut when read"
            )


def _join(tokens: NDArray[Any], segments: NDArray[np.int64]) -> NDArray[Any]:
    """A document from its stretches, in order, without what an overlap repeats."""
    parts = [tokens[:0]]
    done = 0
    for _, start, position, length in segments.tolist():
        skip = max(0, done - start)
        parts.append(tokens[position + skip : position + length])
        done = max(done, start + length)
    return np.concatenate(parts)
