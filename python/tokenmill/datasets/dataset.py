"""Open a finished dataset: memory-mapped, in milliseconds, from any number of processes at once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.documents import LOSS_MASK
from tokenmill.datasets.formats.format import find_format, list_formats
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.ledger.selection import TRAINING, VALIDATION
from tokenmill.datasets.mapped import MappedShards
from tokenmill.datasets.rows import Rows, Tail
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.sources.stores import is_remote, join_address

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import DTypeLike, NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.remote import ShardCache


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Open a finished dataset, from any number of processes at once.

    >>> import tokenmill
    >>> made = tokenmill.prepare(dataset=["a text"], tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> tokenmill.open("out")[0].tolist() == made[0].tolist()
    True

    Args:
        path: A directory, or a URL such as `s3://bucket/dataset`, which is read through a local cache:
            shards are fetched when they are read.

    Returns:
        The dataset; no token is read yet.

    Raises:
        DatasetError: There is none, or it is unfinished, damaged or of a newer version.
    """
    if is_remote(path):
        from tokenmill.datasets.remote import open_cached

        manifest, cache = open_cached(str(path))
        return Dataset(cache.root, manifest, cache)
    root = Path(path)
    dataset = Dataset(root, load_manifest(root))
    dataset.shards.check_sizes()
    return dataset


class Dataset:
    """The documents of a finished dataset; `tokenmill.open` and `tokenmill.prepare` return one.

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
        self.shards = MappedShards(path, manifest, cache)

    # A copy in another process maps the files again, and has the same manifest even if the dataset has grown.
    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.path, self.manifest, self.shards.cache)

    def __repr__(self) -> str:
        size = f"documents={len(self):,}, tokens={self.num_tokens:,}"
        return f"Dataset({self.address!r}, {size}, dtype={self.dtype})"

    @property
    def address(self) -> str:
        """The directory of the dataset, or the URL that `path` is a cache of."""
        cache = self.shards.cache
        return cache.store.address if cache is not None else str(self.path)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the token ids on disk."""
        return self.shards.dtype

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self)

    @property
    def num_tokens(self) -> int:
        """Number of token ids, padding included."""
        return self.shards.num_tokens

    @property
    def vocab_size(self) -> int:
        """The tokenizer's vocabulary size; every id is below it."""
        return self.manifest.tokenizer.vocab_size

    @property
    def has_loss_mask(self) -> bool:
        """True if the dataset stores a loss mask, as one of conversations does."""
        return self.shards.has_loss_mask

    @cached_property
    def content_hash(self) -> str:
        """One hash of everything in the shards."""
        return self.manifest.content_hash

    def __len__(self) -> int:
        return self.shards.document_starts[-1]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Return the token ids of one document; for a `stream` dataset without a copy."""
        shard, local = self._locate(index)
        if self.manifest.layout == "documents":
            start, end = self.shards.file(shard, "offsets")[local : local + 2].tolist()
            return self.shards.file(shard)[start:end]
        return _join(self.shards.file(shard), self.shards.find_segments(shard, local))

    def loss_mask(self, index: int) -> NDArray[np.bool_]:
        """Return which tokens of one document are trained on; all of them in a dataset of texts."""
        if not self.has_loss_mask:
            return np.ones(len(self[index]), bool)
        shard, local = self._locate(index)
        mask = self.shards.file(shard, LOSS_MASK)
        return _join(mask, self.shards.find_segments(shard, local)).astype(bool)

    def _locate(self, index: int) -> tuple[int, int]:
        """Return the shard of a document, and its number there."""
        self._require_mappable()
        number = index + self.num_documents if index < 0 else index
        if not 0 <= number < self.num_documents:
            raise IndexError(f"document {index} is outside 0..{self.num_documents - 1}")
        return self.shards.locate_document(number)

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
        """Return rows of tokens: cut now from a `stream` dataset, or as they were packed.

        Args:
            context_length: Tokens in a row; left out for rows that were packed.
            overlap: Tokens that a row shares with the one before it.
            tail: "drop" or "pad" a last, shorter row.
            pad_id: The id that pads it; by default the dataset's padding or EOS id.
            columns: Any of `attention_mask`, `labels`, `loss_mask`, `position_ids`, `document_ids`,
                `cu_seqlens`.
            dtype: The integer type of batches; rows themselves stay as they are on disk.

        Returns:
            A sequence of rows, which maps the files and copies nothing.

        Raises:
            ConfigError: The lengths contradict each other or the packed rows, or `dtype` is too small.
            DatasetError: The dataset is in a format that is not read here.
        """
        self._require_mappable()
        packing = self.manifest.packing
        if self.manifest.layout == "rows":
            stored = packing.context_length or 1
            for name, asked, have in (("context_length", context_length, stored), ("overlap", overlap, None)):
                if asked not in (None, have):
                    raise ConfigError(
                        f"{name}={asked}: this dataset was packed with mode {packing.mode!r} into rows of "
                        f"{stored} and cannot be cut again. Leave it out, or prepare with packing 'stream', "
                        "cut when read"
                    )
            return Rows(self, stored, pad_id=packing.pad_id, columns=columns, dtype=dtype)
        length = self._check_cut(context_length, overlap or 0, tail)
        pad = next((each for each in (pad_id, packing.pad_id, packing.eos_id) if each is not None), None)
        if tail == "pad" and pad is None:
            raise ConfigError(
                "tail='pad' needs a pad_id: the dataset was prepared without a padding or EOS token"
            )
        return Rows(self, length, overlap or 0, tail=tail, pad_id=pad, columns=columns, dtype=dtype)

    def _check_cut(self, context_length: int | None, overlap: int, tail: str) -> int:
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
                f"context_length is {context_length:,}, but {self.path} has only {self.num_tokens:,} tokens, "
                "less than one row. Use a smaller context_length, or tail='pad'"
            )
        return context_length

    def _require_mappable(self) -> None:
        if self.shards.mappable:
            return
        found = find_format(self.manifest.format)
        mapped = next(other.name for other in list_formats() if other.mapped)
        # Rows in another format have lost their documents.
        if found.reader is None or self.manifest.layout == "rows":
            remedy = f"prepare it again: tokenmill prepare INPUTS --output NEW_DIR --format {mapped}"
        else:
            remedy = f"tokenmill dataset convert {self.path} NEW_DIR --format {mapped}"
        raise DatasetError(
            f"{self.path} is in the format {found.name}, which {found.read_by} reads. "
            f"For random access here: {remedy}"
        )

    def split(self, name: str) -> Dataset:
        """Return the split of that name, such as `"validation"`; `"training"` is this dataset.

        Raises:
            DatasetError: There is none; `prepare(..., validation="0.5%")` makes one.
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
        """Return a Hugging Face `datasets.Dataset` of the documents; `rows(...).to_hf()` has rows."""
        from tokenmill.datasets.torch import documents_to_hf

        self._require_mappable()
        return documents_to_hf(self)


def _join(tokens: NDArray[Any], segments: NDArray[np.int64]) -> NDArray[Any]:
    """Return a document from its segments, without what an overlap repeats."""
    parts, done = [tokens[:0]], 0
    for _, start, position, length in segments.tolist():
        skip = max(0, done - start)
        parts.append(tokens[position + skip : position + length])
        done = max(done, start + length)
    return np.concatenate(parts)
